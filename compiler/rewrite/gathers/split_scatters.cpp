#include <algorithm>
#include <iterator>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/contraction_path.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// From here on a store and a load cost less than computing a part of a term where it is added: there it has no lanes,
/// and each element along the row of the result computes it again.
constexpr double kWorthATerm = 12;

bool depends_on_axes(const Expr& expr) {
  return std::ranges::any_of(expr->free_symbols, [](Symbol s) { return s.kind() == Symbol::Kind::Axis; });
}

/// The condition that an index which a value gives is one of an axis, for `value == axis`; empty for other conditions.
Expr is_on_axis(const Definition& definition, const Expr& condition) {
  if (!is_call(condition, "==")) return {};
  for (const std::size_t side : {0, 1}) {
    const Expr& axis = condition->args[side];
    const Expr& value = condition->args[1 - side];
    if (axis->kind != NodeKind::IndexValue || depends_on_axes(value)) continue;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (axis == index_value(Symbol::axis(k)))
        return call("and", {call("<=", {0, value}), call("<", {value, index_value(definition.axes[k].extent)})});
    }
  }
  return {};
}

/// Reads of elements that values choose, whatever the symbols of their indices are called.
class UnconditionalReads {
 public:
  /// Those of the Program that no `where` keeps from being read.
  explicit UnconditionalReads(const Program& program) {
    for (const Definition& definition : program.definitions) {
      if (!definition.scan && definition.body->gathers) collect(definition.body, Scope::of(definition));
    }
  }

  /// Whether all of the expression's, whose indices have fixed ranges, are read elsewhere, for all that its indices run
  /// over.
  bool cover(const Expr& expr, const Scope& scope) const {
    if (!expr->gathers) return true;
    if (expr->kind == NodeKind::Access) {
      const auto read = read_of(expr, scope);
      if (!read || std::ranges::find(reads_, *read) == reads_.end()) return false;
    }
    if (expr->kind != NodeKind::Reduce)
      return std::ranges::all_of(expr->args, [&](const Expr& arg) { return cover(arg, scope); });
    const OpenedReduce opened = open(expr);
    return cover(opened.body, scope.with(opened.index, opened.range));
  }

 private:
  struct Read {
    Expr access;  // over axes, in the order in which it reads them
    std::vector<Range> ranges;
    bool operator==(const Read&) const = default;
  };

  void collect(const Expr& expr, const Scope& scope) {
    if (!expr->gathers) return;
    if (is_call(expr, "where")) return collect(expr->args[0], scope);
    if (const auto read = expr->kind == NodeKind::Access ? read_of(expr, scope) : std::nullopt) reads_.push_back(*read);
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      return collect(opened.body, scope.with(opened.index, opened.range));
    }
    for (const Expr& arg : expr->args) collect(arg, scope);
  }

  static std::optional<Read> read_of(const Expr& access, const Scope& scope) {
    Read read;
    Replacement to_axes;
    bool is_box = true;
    visit(access, [&](const Expr& e) {
      for (const Affine& subscript : e->subscripts) {
        for (const auto& [symbol, coefficient] : subscript.terms()) {
          const Range* range = scope.find(symbol);
          if (!range || std::ranges::find(to_axes, symbol, &std::pair<Symbol, Affine>::first) != to_axes.end())
            continue;
          to_axes.emplace_back(symbol, Symbol::axis(static_cast<std::uint32_t>(to_axes.size())));
          read.ranges.push_back(*range);
          is_box &= has_fixed_extent(*range);
        }
      }
    });
    read.access = substitute(access, to_axes);
    return is_box ? std::optional(std::move(read)) : std::nullopt;
  }

  std::vector<Read> reads_;
};

/// Takes the parts of a scatter sum's terms that know nothing of the element that they go to.
class TermSplitter {
 public:
  TermSplitter(Program& known, const Definition& definition, const UnconditionalReads& reads, double room)
      : program_(known), definition_(definition), reads_(reads), room_(room) {}

  Expr run() {
    return rewrite_top_down(definition_.body, Scope::of(definition_),
                            [this](const Expr& e, const Scope& scope) { return split(e, scope); });
  }

 private:
  std::optional<Expr> split(const Expr& expr, const Scope& scope) {
    const bool is_truth = expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth;
    if (expr->args.empty() || is_truth) return expr;
    if (!depends_on_axes(expr)) return stored(expr, scope);
    return is_call(expr, "*") ? split_product(expr, scope) : std::nullopt;
  }

  std::optional<Expr> split_product(const Expr& product, const Scope& scope) {
    std::vector<Expr> own, others;
    for (const Expr& factor : product->args) (depends_on_axes(factor) ? others : own).push_back(factor);
    if (own.size() < 2) return std::nullopt;
    const auto part = stored(with_args(product, std::move(own)), scope);
    if (!part) return std::nullopt;
    for (Expr& factor : others)
      factor = rewrite_top_down(factor, scope, [this](const Expr& e, const Scope& inner) { return split(e, inner); });
    others.push_back(*part);
    return with_args(product, std::move(others));
  }

  std::optional<Expr> stored(const Expr& expr, const Scope& scope) {
    if (cost(expr) < kWorthATerm) return std::nullopt;
    const auto guarded = with_conditions(expr, scope);
    if (!guarded) return std::nullopt;
    Scope unconditional = scope;
    unconditional.conditions.clear();
    auto part = extract(program_, unconditional, *guarded, definition_.name + ".term", scope.dtype);
    if (!part || assumed_size(part->definition.axes) > room_) return std::nullopt;
    return add_part(program_, std::move(*part), definition_);
  }

  /// Elements that values choose are read under the conditions under which the term reads them, unless others read them
  /// anyway.
  std::optional<Expr> with_conditions(const Expr& expr, const Scope& scope) const {
    if (reads_.cover(expr, scope)) return expr;
    std::vector<Expr> parts, kept;
    for (const Expr& condition : scope.conditions) add_conjuncts(condition, parts);
    for (const Expr& part : parts) {
      const Expr own = depends_on_axes(part) ? is_on_axis(definition_, part) : part;
      if (!own) return std::nullopt;
      kept.push_back(own);
    }
    if (kept.empty()) return expr;
    return call("where", {kept.size() == 1 ? kept[0] : call("and", kept), expr, 0});
  }

  Program& program_;
  const Definition& definition_;
  const UnconditionalReads& reads_;
  const double room_;
};

Expr split_body(Program& known, const Definition& definition, const UnconditionalReads& reads, double room) {
  const auto sum = definition.scan ? std::nullopt : scatter_of(known, definition);
  // A part would have an element for each pair of a row and an element of its range.
  const bool splits = sum && !sum->targets.empty() && sum->ranges.empty();
  return splits ? TermSplitter(known, definition, reads, room).run() : definition.body;
}

}  // namespace

Program split_scatters(const Program& program) {
  if (!has_integers(program)) return program;
  const UnconditionalReads reads(program);
  const double room = room_beside(largest_tensor(program));
  return split_bodies(program, [&](Program& known, const Definition& definition) {
    return split_body(known, definition, reads, room);
  });
}

}  // namespace moxie
