#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// What only derivatives heed, and its value is that of the first argument.
bool is_mark(const Expr& expr) { return is_call(expr, "stop_gradient") || is_call(expr, "with_slope"); }

bool is_squared_deviation(const Expr& expr) { return is_call(expr, "squared_deviation"); }

bool has_marks(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= is_mark(e) || is_squared_deviation(e); });
  return found;
}

}  // namespace

Program drop_slopes(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) {
    if (!has_marks(definition.body)) continue;
    definition.body = rewrite_bottom_up(definition.body, Scope::of(definition), [](const Expr& expr, const Scope&) {
      if (is_squared_deviation(expr)) return call("pow", {expr->args[0] - expr->args[1], 2});
      return is_mark(expr) ? expr->args[0] : expr;
    });
  }
  return result;
}

}  // namespace moxie
