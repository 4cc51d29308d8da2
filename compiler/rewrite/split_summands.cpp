#include <algorithm>

#include "compiler/rewrite/cost.h"
#include "compiler/rewrite/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// A store and a load per element cost less from here on.
constexpr double kWorthAPlace = 200;

bool holds_sums(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce; });
  return found;
}

/// The sum gathers part of a triangle of pairs. Such sums come in twos, one for each index of the pair, and what both
/// need of a pair is computed once where the pairs are elements of a definition.
bool is_moved(const Range& range, const Scope& scope) {
  return std::ranges::any_of(scope.open, [&](const auto& entry) { return mentions(range, entry.first); });
}

class SummandSplitter {
 public:
  explicit SummandSplitter(const Program& program) : names_(program), room_(largest_tensor(program)) {}

  /// The summands that were split off, then the definition.
  std::vector<Definition> run(Definition definition) {
    std::vector<Definition> made;
    const auto split = [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
      const bool splits = expr->kind == NodeKind::Reduce && is_moved(expr->range, scope) && holds_sums(expr->args[0]) &&
                          cost(expr->args[0]) >= kWorthAPlace;
      if (!splits) return std::nullopt;
      const OpenedReduce opened = open(expr);
      auto part = extract(names_, scope.with(opened.index, opened.range), opened.body, definition.name + ".summand",
                          scope.dtype);
      if (!part || !has_long_axis(part->definition) || assumed_size(part->definition.axes) > room_) return std::nullopt;
      part->definition.line = definition.line;
      join_scan(*part, definition);
      names_.definitions.push_back(part->definition);
      made.push_back(std::move(part->definition));
      return reduce(expr->reduce, opened.index, opened.range, part->read, opened.position);
    };
    definition.body = rewrite_top_down(definition.body, Scope::of(definition), split);
    made.push_back(std::move(definition));
    return made;
  }

 private:
  static bool has_long_axis(const Definition& definition) {
    return std::ranges::any_of(definition.axes, [](const AxisDecl& axis) { return is_long(axis.range); });
  }

  Program names_;  // for unused names
  double room_;
};

}  // namespace

Program split_summands(const Program& program) {
  Program result = program;
  result.definitions.clear();
  SummandSplitter splitter(program);
  for (const Definition& definition : program.definitions) {
    for (Definition& part : splitter.run(definition)) result.definitions.push_back(std::move(part));
  }
  return leave_scans(result);
}

}  // namespace moxie
