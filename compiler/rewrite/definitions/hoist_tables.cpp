#include <algorithm>
#include <cstdlib>
#include <map>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// A table costs a load where it is used: two multiplications pay for it.
constexpr double kWorthATable = 2;
/// ... or four operations if what they take is one element, which is loaded without a table.
constexpr double kElementWorthATable = 4;
/// ... but a sum must hold a function, since in a loop its parts are hoisted one loop level each.
constexpr double kSumWorthATable = 8;
/// What costs as much as an exponential is better computed once, in all lanes of a kernel of its own, than by itself
/// for a few iterations that share it: g^(t-u) for sums over u of 32 elements took 2.7 times as long.
constexpr double kWorthAKernel = 8;
constexpr double kFewIterations = 8;
constexpr std::int64_t kLargestTable = std::int64_t{1} << 22;
/// The maximum ratio of the elements of a tensor to those that are read, for a table of all of them. x[n+1] under the
/// guard n+1 < N reads all elements but one.
constexpr double kMaxSpare = 1.5;

/// The element on which the expression depends, and on nothing else; nothing where there is no such element.
std::optional<Expr> only_element(const Expr& expr) {
  std::optional<Expr> element;
  bool is_only = true;
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) {
      is_only &= e->args.empty() && (!element || *element == e);
      element = e;
    } else {
      is_only &= e->kind == NodeKind::Constant || e->kind == NodeKind::Call;
    }
  });
  return is_only ? element : std::nullopt;
}

class TableHoister {
 public:
  TableHoister(Program& known, std::map<std::string, std::string>& converted)
      : program_(known), converted_(converted) {}

  Expr run(const Definition& definition) {
    user_ = &definition;
    const auto prefix = match_prefix(definition);
    single_pass_.clear();
    if (prefix) single_pass_.push_back(Symbol::axis(prefix->axis));
    scatter_ = has_integers_ ? scatter_of(program_, definition) : std::nullopt;
    if (scatter_) {
      for (const Scatter::Target& target : scatter_->targets) single_pass_.push_back(target.axis);
    }
    return rewrite_top_down(definition.body, Scope::of(definition),
                            [this](const Expr& e, const Scope& s) { return visit_node(e, s); });
  }

 private:
  std::optional<Expr> visit_node(const Expr& expr, const Scope& scope) {
    if (const auto ranged = has_integers_ ? ranged_reduce(program_, expr) : std::nullopt)
      return inside_range(expr, *ranged, scope);
    if (is_table(expr, scope)) {
      if (auto table = make_table(expr, scope)) return table;
    }
    if (expr->kind == NodeKind::Reduce) return inside_reduction(expr, open(expr), scope);
    if (is_call(expr, "*")) return hoist_factors(expr, scope);
    return std::nullopt;
  }

  /// Looks for tables inside of a reduction over a range by data, which visits the pairs of a row and an element of its
  /// range alone: none of them may have both as axes, since it would hold all pairs.
  Expr inside_range(const Expr& reduction, const RangedReduce& ranged, const Scope& scope) {
    const OpenedReduce opened = open(reduction);
    pairs_.push_back({opened.index, {}});
    for (const Symbol symbol : open_symbols_of(call("and", ranged.range.bounds), scope))
      pairs_.back().rows.push_back(symbol);
    const Expr result = inside_reduction(reduction, opened, scope);
    pairs_.pop_back();
    return result;
  }

  Expr inside_reduction(const Expr& reduction, const OpenedReduce& opened, const Scope& scope) {
    reductions_.push_back(reduction);
    const Expr result = map_opened(reduction, opened, [&](const Expr& child) {
      return rewrite_top_down(child, scope.with(opened.index, opened.range),
                              [this](const Expr& e, const Scope& s) { return visit_node(e, s); });
    });
    reductions_.pop_back();
    return result;
  }

  /// The factors that stay fixed in a long loop, as one table.
  std::optional<Expr> hoist_factors(const Expr& product, const Scope& scope) {
    for (const auto& [symbol, range] : scope.open) {
      if (!is_long(range) || !product->depends_on(symbol)) continue;
      std::vector<Expr> fixed;
      std::vector<Expr> varying;
      for (const Expr& arg : product->args) {
        (arg->depends_on(symbol) ? varying : fixed).push_back(arg);
      }
      const auto numbers = std::ranges::count(fixed, NodeKind::Constant, [](const Expr& e) { return e->kind; });
      if (static_cast<std::ptrdiff_t>(fixed.size()) - numbers < 2) continue;
      const Expr group = call("*", fixed);
      if (!is_table(group, scope)) continue;
      const auto table = make_table(group, scope);
      if (!table) continue;
      varying.push_back(*table);
      return rewrite_top_down(varying.size() == 1 ? varying[0] : call("*", varying), scope,
                              [this](const Expr& e, const Scope& s) { return visit_node(e, s); });
    }
    return std::nullopt;
  }

  /// Whether it has a value for every pair of a scatter's term and an element that terms may go to, each of which goes
  /// to few.
  bool holds_scattered_pairs(const Expr& expr, const Scope& scope) const {
    if (!scatter_ || !scatter_->depends_on_element(expr)) return false;
    const std::size_t axes = user_->axes.size();  // the scatter's loops are those next to the axes
    const std::size_t end = std::min(axes + scatter_->loops.size(), scope.open.size());
    for (std::size_t k = axes; k < end; ++k) {
      if (expr->depends_on(scope.open[k].first)) return true;
    }
    return false;
  }

  bool is_table(const Expr& expr, const Scope& scope) const {
    if (expr->kind == NodeKind::Constant || expr->kind == NodeKind::IndexValue || expr->kind == NodeKind::Random)
      return false;
    if (expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth) return false;
    const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
    const auto pairs = [&](const Pairs& p) { return expr->depends_on(p.element) && depends_on_any(expr, p.rows); };
    if (std::ranges::any_of(pairs_, pairs)) return false;
    if (holds_scattered_pairs(expr, scope)) return false;
    const bool varies_inside = symbols.size() >= 2 || (symbols.size() == 1 && symbols[0].kind() == Symbol::Kind::Free);
    if (!varies_inside || !repeats(expr, scope)) return false;
    std::int64_t size = 1;
    const bool has_room = cost(expr) >= kWorthAKernel && is_as_large_as_an_operand(expr, symbols) &&
                          is_in_a_repeated_reduction(expr, scope);
    for (const Symbol symbol : symbols) {
      const Range& range = *scope.find(symbol);
      if (is_long(range) && !known_extent(range) && !has_room) return false;
      size *= std::max<std::int64_t>(1, static_cast<std::int64_t>(assumed_extent(range)));
      if (size > kLargestTable) return false;
    }
    if (expr->kind == NodeKind::Access) return needs_conversion(expr, scope);
    if (is_call(expr, "+")) return cost(expr) >= kSumWorthATable;
    return cost(expr) >= (only_element(expr) ? kElementWorthATable : kWorthATable);
  }

  /// Whether it reads an element of a tensor at all of its indices: where extents are not known, a table of it takes no
  /// more memory than what is there.
  static bool is_as_large_as_an_operand(const Expr& expr, const std::vector<Symbol>& symbols) {
    bool found = false;
    visit(expr, [&](const Expr& e) {
      const auto is_subscript = [&](Symbol symbol) {
        return std::ranges::any_of(e->subscripts, [&](const Affine& at) { return at == Affine(symbol); });
      };
      found |= e->kind == NodeKind::Access && std::ranges::all_of(symbols, is_subscript);
    });
    return found;
  }

  /// Whether a loop around the reduction that it stands in changes that reduction, and not the expression: the sum of a
  /// softmax is computed once for its row, and so are its terms.
  bool is_in_a_repeated_reduction(const Expr& expr, const Scope& scope) const {
    return !reductions_.empty() && std::ranges::any_of(scope.open, [&](const auto& loop) {
      return reductions_.back()->depends_on(loop.first) && !expr->depends_on(loop.first);
    });
  }

  /// Some long loop around the expression does not change it, nor visits elements of its own.
  bool repeats(const Expr& expr, const Scope& scope) const {
    const bool is_costly = cost(expr) >= kWorthAKernel;
    const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
    return std::ranges::any_of(scope.open, [&](const auto& entry) {
      const auto& [loop, range] = entry;
      if (std::ranges::find(single_pass_, loop) != single_pass_.end()) return false;
      const bool pays = is_long(range, scope) || (is_costly && assumed_extent(range) >= kFewIterations);
      return pays && !expr->depends_on(loop) &&
             std::ranges::none_of(symbols, [&](Symbol symbol) { return is_parted(*scope.find(symbol), loop); });
    });
  }

  /// Whether the loop gives each of its iterations a part of the range's elements that no other one has: of
  /// 8*a..8*a+8, the loop over a does, and of ceil(a/2)..floor(a/2)+1.
  static bool is_parted(const Range& range, Symbol loop) {
    const auto steps_over = [&](const Bound& low, const Bound& high) {
      const Affine extent = high.value - low.value + Affine(1);
      return low.divisor == high.divisor && extent.is_constant() && low.value.mentions(loop) &&
             std::abs(low.value.coefficient(loop)) >= extent.constant();
    };
    return std::ranges::any_of(range.lows, [&](const Bound& low) {
      return std::ranges::any_of(range.highs, [&](const Bound& high) { return steps_over(low, high); });
    });
  }

  bool needs_conversion(const Expr& expr, const Scope& scope) const {
    return scope.dtype == DType::f32 && program_.dtype_of(expr->tensor) == DType::f64;
  }

  /// In single, whole: all who read the tensor share it.
  Expr read_converted(const Expr& access, const Definition& producer) {
    std::string& name = converted_[access->tensor];
    if (name.empty()) {
      name = unused_name(program_, access->tensor + ".single");
      Definition copy{name, DType::f32, producer.axes, {}, false, producer.line};
      std::vector<Affine> element;
      for (std::uint32_t k = 0; k < producer.axes.size(); ++k) element.emplace_back(Symbol::axis(k));
      copy.body = tensor_access(access->tensor, std::move(element));
      program_.definitions.push_back(std::move(copy));
    }
    return access_to(name, access);
  }

  std::optional<Expr> make_table(const Expr& expr, const Scope& scope) {
    const Definition* read = expr->kind == NodeKind::Access ? program_.find_definition(expr->tensor) : nullptr;
    if (read && !read->scan) return read_converted(expr, *read);
    auto table = extract(program_, scope, expr, user_->name + ".table", scope.dtype);
    if (!table) table = of_all_elements(expr, scope);
    if (!table) return std::nullopt;
    bool in_double = false;
    visit(expr, [&](const Expr& e) { in_double |= e->kind == NodeKind::Access && needs_conversion(e, scope); });
    if (in_double && expr->kind != NodeKind::Access) table->definition.body = call("f64", {table->definition.body});
    return add_part(program_, std::move(*table), *user_);
  }

  /// A function of one element, which may be there thanks to a guard only, of all elements of its tensor: nothing where
  /// these are far more than are asked for.
  std::optional<Extraction> of_all_elements(const Expr& expr, const Scope& scope) const {
    const auto element = only_element(expr);
    if (!element || scope.scan) return std::nullopt;
    Definition table;
    table.name = unused_name(program_, user_->name + ".table");
    table.dtype = scope.dtype;
    table.axes = axes_of((*element)->tensor);
    if (assumed_size(table.axes) > kMaxSpare * iterations(expr, scope)) return std::nullopt;
    std::vector<Affine> place;
    for (std::uint32_t k = 0; k < table.axes.size(); ++k) place.emplace_back(Symbol::axis(k));
    const Expr there = tensor_access((*element)->tensor, std::move(place));
    table.body = rewrite_bottom_up(
        expr, {}, [&](const Expr& e, const Scope&) { return e->kind == NodeKind::Access ? there : e; });
    const Expr read = access_to(table.name, *element);
    return Extraction{std::move(table), read};
  }

  std::vector<AxisDecl> axes_of(const std::string& tensor) const {
    if (const Definition* producer = program_.find_definition(tensor)) return producer->axes;
    std::vector<AxisDecl> axes;
    for (const Affine& extent : program_.shape_of(tensor))
      axes.push_back({axis_name(program_, axes, extent), extent, Range::extent(extent)});
    return axes;
  }

  struct Pairs {
    Symbol element;
    std::vector<Symbol> rows;
  };

  Program& program_;
  const bool has_integers_ = has_integers(program_);
  std::vector<Pairs> pairs_;                       // of the ranges by data around
  std::vector<Expr> reductions_;                   // all around, the innermost last
  std::map<std::string, std::string>& converted_;  // tensors in double to their copies in single
  const Definition* user_ = nullptr;
  /// Axes for all of which terms are computed once: that of a prefix reduction, and those along which a scatter adds
  /// each term to one element.
  std::vector<Symbol> single_pass_;
  std::optional<Scatter> scatter_;  // that the definition is
};

}  // namespace

Program hoist_tables(const Program& program) {
  std::map<std::string, std::string> converted;
  return split_bodies(program, [&](Program& known, const Definition& definition) {
    const bool is_algebra = definition.body->kind == NodeKind::LinearAlgebra;
    return is_algebra ? definition.body : TableHoister(known, converted).run(definition);
  });
}

}  // namespace moxie
