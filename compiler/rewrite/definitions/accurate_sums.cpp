#include <algorithm>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

/// Whether double computes the term at no more cost than single, and without rounding most products: what the tensors
/// hold, added and multiplied.
bool is_plain_arithmetic(const Expr& expr) {
  if (expr->kind == NodeKind::Access || expr->kind == NodeKind::Constant || expr->kind == NodeKind::IndexValue)
    return true;
  const bool adds = is_call(expr, "+") || is_call(expr, "*") || is_call(expr, "neg");
  const bool squares = is_call(expr, "pow") && expr->args[1]->is_constant(2);
  if (squares) return is_plain_arithmetic(expr->args[0]);
  return adds && std::ranges::all_of(expr->args, is_plain_arithmetic);
}

Expr in_double(const Expr& expr);

/// The sum added up in double: of terms that are computed in single, unless they are arithmetic.
Expr summed(const Expr& expr) {
  if (is_sum(expr)) {
    const OpenedReduce opened = open(expr);
    return map_opened(expr, opened, [](const Expr& child) { return summed(child); });
  }
  return is_plain_arithmetic(expr) ? expr : call("f32", {in_double(expr)});
}

/// An expression that is computed in single, with its sums in double.
Expr in_double(const Expr& expr) {
  if (is_sum(expr)) return call("f64", {summed(expr)});
  if (is_call(expr, "f32")) return map_children(expr, in_double);
  if (is_call(expr, "f64")) return expr;
  return map_children(expr, in_double);
}

/// What f64(..) holds apart from f32(..) in it is double already.
Program with_sums_in_double(const Program& program) {
  return split_bodies(program, [](Program& known, const Definition& user) -> Expr {
    if (computed_dtype(user.dtype) != DType::f32) return user.body;
    if (!is_sum(user.body)) return in_double(user.body);
    auto sum = extract(known, Scope::of(user), summed(user.body), user.name + ".sum", DType::f64);
    return sum ? add_part(known, std::move(*sum), user) : in_double(user.body);
  });
}

}  // namespace

Program accurate_sums(const Program& program) {
  return program.precision == Precision::Accurate ? with_sums_in_double(program) : program;
}

}  // namespace moxie
