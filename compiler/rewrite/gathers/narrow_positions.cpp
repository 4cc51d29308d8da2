#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// Half of the whole numbers that singles hold, so that differences of two are exact too.
constexpr std::int64_t kMaxPosition = 1 << 23;

bool is_moderate(const Affine& affine, const Scope& scope) {
  const auto high = largest_value(affine, scope), negated_low = largest_value(affine * -1, scope);
  return high && negated_low && *high <= kMaxPosition && *negated_low <= kMaxPosition;
}

bool searches(const Expr& e) {
  return e->kind == NodeKind::Reduce && (e->reduce == ReduceKind::ArgMax || e->reduce == ReduceKind::ArgMin);
}

/// argmax[i](..) and argmin[i](..), nested too, whose positions are small whole numbers; or such a position under a
/// condition, as in a scan, whose first step finds none, and a small whole number otherwise.
bool finds_moderate_position(Expr expr, Scope scope) {
  if (is_call(expr, "where")) {
    const auto is_small = [](const Expr& e) {
      return e->kind == NodeKind::Constant && e->value == std::trunc(e->value) && std::abs(e->value) <= kMaxPosition;
    };
    const Expr &then = expr->args[1], &otherwise = expr->args[2];
    return (is_small(then) || finds_moderate_position(then, scope)) &&
           (is_small(otherwise) || finds_moderate_position(otherwise, scope)) &&
           !(is_small(then) && is_small(otherwise));
  }
  if (!searches(expr)) return false;
  while (searches(expr)) {
    const OpenedReduce opened = open(expr);
    scope = scope.with(opened.index, opened.range);
    expr = opened.position;
  }
  return expr->kind == NodeKind::IndexValue && is_moderate(expr->affine, scope);
}

/// Whether all that reads the tensor is computed in single, if anything does.
bool is_read_in_single(const Program& program, const std::string& name) {
  return std::ranges::all_of(program.definitions, [&](const Definition& definition) {
    bool reads = false;
    visit(definition.body, [&](const Expr& e) { reads |= e->kind == NodeKind::Access && e->tensor == name; });
    return !reads || computed_dtype(definition.dtype) == DType::f32;
  });
}

/// Whether single computes the difference exactly: of indices, and of positions that are narrow.
bool is_narrow(const Expr& expr, const Scope& scope, const std::set<std::string>& narrow) {
  if (expr->kind == NodeKind::IndexValue) return is_moderate(expr->affine, scope);
  if (expr->kind == NodeKind::Access) return narrow.contains(expr->tensor);
  const bool is_difference = is_call(expr, "+") && expr->args.size() == 2 && is_call(expr->args[1], "neg");
  return is_difference && is_narrow(expr->args[0], scope, narrow) && is_narrow(expr->args[1]->args[0], scope, narrow);
}

/// Whether all that the expression reads is stored in single or half.
bool reads_singles(const Program& program, const Expr& expr) {
  bool all = true;
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    const DType dtype = program.dtype_of(e->tensor);
    all &= !holds_integers(dtype) && computed_dtype(dtype) == DType::f32;
  });
  return all;
}

}  // namespace

/// Derivatives of maxima search for positions in double where they know no extent that keeps them small. Once extents
/// are known, singles do: in twice as many lanes, in the kernels that read them. So do positions that are stored as
/// integers, which are computed in double for being integers, if what is compared is made of singles.
Program narrow_positions(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) {
    if (holds_integers(definition.dtype) && reads_singles(program, definition.body) &&
        finds_moderate_position(definition.body, Scope::of(definition)))
      definition.body = call("f32", {definition.body});
  }
  std::set<std::string> narrow;
  for (Definition& definition : result.definitions) {
    if (!definition.output && definition.dtype == DType::f64 &&
        finds_moderate_position(definition.body, Scope::of(definition)) &&
        is_read_in_single(program, definition.name)) {
      definition.dtype = DType::f32;
      narrow.insert(definition.name);
    }
  }
  if (narrow.empty()) return result;
  for (Definition& definition : result.definitions) {
    definition.body =
        rewrite_bottom_up(definition.body, Scope::of(definition), [&](const Expr& expr, const Scope& scope) {
          return is_call(expr, "f64") && is_narrow(expr->args[0], scope, narrow) ? expr->args[0] : expr;
        });
  }
  return result;
}

}  // namespace moxie
