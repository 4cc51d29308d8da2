#include <algorithm>

#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"

namespace moxie {
namespace {

/// A summand is computed twice, for the sums of blocks and then for the elements: from about one exponential on it is
/// worth a place in memory.
constexpr double kCostlyElement = 8;

/// A definition larger than this many times the largest input or output is not made.
constexpr double kRoomForPrefixes = 4;

class PrefixSplitter {
 public:
  explicit PrefixSplitter(const Program& program)
      : names_(program), result_(program), room_(kRoomForPrefixes * largest_tensor(program)) {
    result_.definitions.clear();
  }

  Program run() {
    const std::vector<Definition> definitions = names_.definitions;
    for (const Definition& definition : definitions) {
      if (definition.scan || definition.body->kind == NodeKind::LinearAlgebra)
        result_.definitions.push_back(definition);
      else
        add(definition);
    }
    return std::move(result_);
  }

 private:
  /// Prefix reductions inside the body become definitions before it, the innermost first.
  void add(Definition definition) {
    const auto outline = [&](const Expr& expr, const Scope& scope) {
      return expr->kind == NodeKind::Reduce ? outlined(definition, expr, scope).value_or(expr) : expr;
    };
    const Expr root = definition.body;
    const Scope scope = Scope::of(definition);
    if (root->kind != NodeKind::Reduce) {
      definition.body = rewrite_bottom_up(root, scope, outline);
      result_.definitions.push_back(std::move(definition));
      return;
    }
    const OpenedReduce opened = open(root);
    const Scope inside = scope.with(opened.index, opened.range);
    definition.body =
        map_opened(root, opened, [&](const Expr& child) { return rewrite_bottom_up(child, inside, outline); });
    keep(std::move(definition));
  }

  std::optional<Expr> outlined(const Definition& user, const Expr& expr, const Scope& scope) {
    const Guarded guarded = with_guards(expr, scope);
    auto part = extract(names_, guarded.scope, guarded.sum, user.name + ".prefix", scope.dtype);
    if (!part || assumed_size(part->definition.axes) > room_ || !match_prefix(part->definition)) return std::nullopt;
    part->definition.line = user.line;
    names_.definitions.push_back(part->definition);
    keep(std::move(part->definition));
    return part->read;
  }

  /// The definition, after one for the elements of a prefix reduction that are costly.
  void keep(Definition definition) {
    if (match_prefix(definition)) definition.body = with_stored_elements(definition);
    result_.definitions.push_back(std::move(definition));
  }

  Expr with_stored_elements(const Definition& definition) {
    const Expr& root = definition.body;
    if (cost(root->args[0]) < kCostlyElement) return root;
    const OpenedReduce opened = open(root);
    const Scope inside = Scope::of(definition).with(opened.index, opened.range);
    auto part = extract(names_, inside, opened.body, definition.name + ".element", definition.dtype);
    if (!part || assumed_size(part->definition.axes) > room_) return root;
    part->definition.line = definition.line;
    names_.definitions.push_back(part->definition);
    result_.definitions.push_back(std::move(part->definition));
    return reduce(root->reduce, opened.index, opened.range, part->read);
  }

  Program names_;  // for unused names
  Program result_;
  const double room_;
};

}  // namespace

Program split_prefixes(const Program& program) { return PrefixSplitter(program).run(); }

}  // namespace moxie
