#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// The reductions at the top of a body, whose loops a kernel shares out and orders.
Expr from_zero(const Expr& expr) {
  if (expr->kind != NodeKind::Reduce) return expr;
  OpenedReduce opened = opened_from_zero(expr);
  if (!has_fixed_extent(opened.range)) opened = open(expr);
  return reduce(expr->reduce, opened.index, opened.range, from_zero(opened.body), opened.position);
}

}  // namespace

Program count_from_zero(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) definition.body = from_zero(definition.body);
  return result;
}

}  // namespace moxie
