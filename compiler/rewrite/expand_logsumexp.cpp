#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {

Program expand_logsumexp(const Program& program) {
  Program result = program;
  const auto expand = [](const Expr& expr, const Scope&) -> Expr {
    if (expr->kind != NodeKind::Reduce || expr->reduce != ReduceKind::LogSumExp) return expr;
    const OpenedReduce opened = open(expr);
    // A finite shift, so that a body of -inf everywhere gives -inf and not NaN.
    const Expr shift = call("max", {reduce(ReduceKind::Max, opened.index, opened.range, opened.body), constant(-3e38)});
    return shift +
           call("log", {reduce(ReduceKind::Sum, opened.index, opened.range, call("exp", {opened.body - shift}))});
  };
  for (Definition& definition : result.definitions)
    definition.body = rewrite_bottom_up(definition.body, Scope::of(definition), expand);
  return result;
}

}  // namespace moxie
