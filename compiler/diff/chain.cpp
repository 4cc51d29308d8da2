#include "compiler/diff/chain.h"

#include "compiler/expression/functions.h"

namespace moxie {
namespace {

void append_factors(std::vector<Expr>& factors, const Expr& expr) {
  if (is_call(expr, "*"))
    factors.insert(factors.end(), expr->args.begin(), expr->args.end());
  else
    factors.push_back(expr);
}

bool is_indicator(const Expr& expr) {
  return is_call(expr, "where") && (expr->args[1]->is_constant(0) || expr->args[2]->is_constant(0)) &&
         (expr->args[1]->is_constant(1) || expr->args[2]->is_constant(1));
}

Expr negated(const Expr& expr) { return is_call(expr, "neg") ? expr->args[0] : -expr; }

}  // namespace

Expr accumulate(const Expr& a, const Expr& b) {
  if (a->is_constant(0)) return b;
  if (b->is_constant(0)) return a;
  return a + b;
}

Expr chain(const Expr& local, const Expr& adjoint) {
  if (local->is_constant(0) || adjoint->is_constant(0)) return 0;
  if (local->is_constant(1)) return adjoint;
  if (local->is_constant(-1)) return negated(adjoint);
  if (adjoint->is_constant(1)) return local;
  if (is_call(local, "neg")) return negated(chain(local->args[0], adjoint));
  if (is_call(adjoint, "neg")) return negated(chain(local, adjoint->args[0]));
  if (is_indicator(local)) {
    return call("where", {local->args[0], chain(local->args[1], adjoint), chain(local->args[2], adjoint)});
  }
  if (is_call(local, "/") && local->args[0]->is_constant(1)) return adjoint / local->args[1];
  std::vector<Expr> factors;
  append_factors(factors, local);
  append_factors(factors, adjoint);
  return call("*", std::move(factors));
}

}  // namespace moxie
