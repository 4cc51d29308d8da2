#include <limits>

#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

double largest_number(DType dtype) {
  return dtype == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

/// The maximum, held within the finite numbers: so a body of -inf everywhere gives -inf, and one with inf anywhere inf,
/// where the difference to an infinite shift would be NaN.
Expr finite_maximum(const OpenedReduce& opened, DType dtype) {
  const double largest = largest_number(dtype);
  const Expr maximum = reduce(ReduceKind::Max, opened.index, opened.range, opened.body);
  return call("max", {call("min", {maximum, constant(largest)}), constant(-largest)});
}

}  // namespace

Program expand_logsumexp(const Program& program) {
  Program result = program;
  const auto expand = [](const Expr& expr, const Scope& scope) -> Expr {
    if (expr->kind != NodeKind::Reduce || expr->reduce != ReduceKind::LogSumExp) return expr;
    const OpenedReduce opened = open(expr);
    const Expr shift = finite_maximum(opened, scope.dtype);
    return shift +
           call("log", {reduce(ReduceKind::Sum, opened.index, opened.range, call("exp", {opened.body - shift}))});
  };
  for (Definition& definition : result.definitions)
    definition.body = rewrite_bottom_up(definition.body, Scope::of(definition), expand);
  return result;
}

}  // namespace moxie
