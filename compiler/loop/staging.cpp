#include "compiler/loop/staging.h"

#include <algorithm>
#include <set>

#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/cost.h"

namespace moxie {
namespace {

/// From about half an exponential on, a load is cheaper.
constexpr double kWorthStaging = 6;
bool has_loops(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce || e->kind == NodeKind::LinearAlgebra; });
  return found;
}

class StageFinder {
 public:
  StageFinder(Symbol index, const StageScope& scope) : index_(index), scope_(scope) {}

  std::vector<Staged> found;

  void search(const Expr& expr, ValueType type) {
    // What does not depend on the index is computed before its loop as a whole.
    if (expr->height == 0 || !expr->depends_on(index_) || !seen_.insert({expr.get(), type}).second) return;
    if (expr->kind == NodeKind::Reduce) {
      if (const auto extent = box_extent(expr->range)) {
        collected_.clear();
        collect(expr->args[0], type, expr, *extent);
      }
    }
    for (const Expr& arg : expr->args) search(arg, argument_type(expr, type, scope_.source));
  }

 private:
  std::optional<std::int64_t> box_extent(const Range& range) const {
    std::optional<std::int64_t> least;
    for (const Bound& bound : range.highs) {
      const auto last = bound.divisor == 1 ? scope_.largest(bound.value) : std::nullopt;
      if (last && *last >= 0 && *last < scope_.longest) least = std::min(least.value_or(*last + 1), *last + 1);
    }
    return least;
  }

  /// The largest subexpressions of a reduction's body that depend on its own index and on nothing else that is unknown
  /// before the loop.
  void collect(const Expr& expr, ValueType type, const Expr& reduction, std::int64_t extent) {
    const Symbol bound = Symbol::bound(reduction->height);
    if (!expr->depends_on(bound) || !collected_.insert({expr.get(), type}).second) return;
    const bool known = !expr->depends_on(index_) && std::ranges::all_of(expr->free_symbols, [&](Symbol s) {
      return s == bound || scope_.is_available(s);
    });
    const bool number =
        type != ValueType::index && (expr->kind != NodeKind::Call || expr->function->result == ResultType::Number);
    if (known && number && !has_loops(expr) && cost(expr) >= kWorthStaging) return add(expr, type, reduction, extent);
    if (expr->kind == NodeKind::Reduce) return;
    for (const Expr& arg : expr->args) collect(arg, argument_type(expr, type, scope_.source), reduction, extent);
  }

  void add(const Expr& expr, ValueType type, const Expr& reduction, std::int64_t extent) {
    const Symbol placeholder = Symbol::fresh();
    const Expr general = substitute(expr, {{Symbol::bound(reduction->height), placeholder}});
    const Range range = is_known(reduction->range) ? reduction->range : Range::extent(extent);
    const Staged staged{general, placeholder, extent, type, range};
    const auto other =
        std::ranges::find_if(found, [&](const Staged& known) { return compute_the_same(known, staged); });
    if (other == found.end()) {
      found.push_back(staged);
      return;
    }
    other->extent = std::max(other->extent, extent);
    if (other->range != range) other->range = Range::extent(other->extent);
  }

  /// Whether the bounds are known before the loop, and not negative.
  bool is_known(const Range& range) const {
    const auto available = [&](const Bound& bound) {
      return std::ranges::all_of(bound.value.terms(),
                                 [&](const auto& term) { return scope_.is_available(term.first); });
    };
    const bool from_zero = range.lows.size() == 1 && range.lows.front() == Bound{1, Affine(0)};
    return from_zero && std::ranges::all_of(range.highs, available);
  }

  Symbol index_;
  const StageScope& scope_;
  std::set<std::pair<const Node*, ValueType>> seen_;
  std::set<std::pair<const Node*, ValueType>> collected_;  // in the reduction at hand
};

/// Whether all that makes up an expression are integers. Each node is looked at once: choices may share theirs.
class IntegerTest {
 public:
  explicit IntegerTest(const Program& source) : source_(source) {}

  /// A choice of mere constants is a number, which needs no double.
  bool holds(const Expr& expr) { return is_whole(expr) && (!chooses_ || reads_); }

 private:
  bool is_whole(const Expr& expr) {
    if (expr->kind == NodeKind::IndexValue || expr->kind == NodeKind::Constant || !seen_.insert(expr.get()))
      return true;
    reads_ |= expr->kind == NodeKind::Access;
    if (expr->kind == NodeKind::Access) return holds_integers(source_.dtype_of(expr->tensor));
    chooses_ |= is_call(expr, "where");
    if (is_call(expr, "where")) return is_whole(expr->args[1]) && is_whole(expr->args[2]);
    return expr->kind == NodeKind::Call && keeps_integers(*expr->function) &&
           std::ranges::all_of(expr->args, [this](const Expr& arg) { return is_whole(arg); });
  }

  const Program& source_;
  NodeSet seen_;
  bool chooses_ = false, reads_ = false;
};

bool is_integer(const Expr& expr, const Program& source) { return IntegerTest(source).holds(expr); }

}  // namespace

bool compute_the_same(const Staged& a, const Staged& b) {
  // Placeholders do not count in the hash of a shape: what differs in it need not be written in the other's.
  return a.type == b.type && a.expr->shape_hash == b.expr->shape_hash &&
         substitute(a.expr, {{a.placeholder, b.placeholder}}) == b.expr;
}

ValueType argument_type(const Expr& expr, ValueType type, const Program& source) {
  if (expr->kind == NodeKind::Access) return ValueType::index;
  if (is_call(expr, "f32")) return ValueType::f32;
  if (is_call(expr, "f64")) return ValueType::f64;
  if (expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth) {
    // Comparisons of integers stay exact in double.
    if (std::ranges::all_of(expr->args, [&](const Expr& arg) { return is_integer(arg, source); }))
      return ValueType::f64;
  }
  return type;
}

std::vector<Staged> find_staged(const Expr& body, ValueType type, Symbol index, const StageScope& scope) {
  StageFinder finder(index, scope);
  finder.search(body, type);
  return std::move(finder.found);
}

}  // namespace moxie
