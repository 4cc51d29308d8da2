#pragma once
// Kept values: a softmax goes through each row three times, for the maximum, for the sum of exponentials and for the
// results. The exponentials that the second loop computes are kept for the third, in scratch.
#include <functional>
#include <span>
#include <vector>

#include "compiler/loop/loop_program.h"
#include "compiler/program/program.h"

namespace moxie {

struct TypedExpr {
  Expr expr;
  ValueType type = ValueType::f32;  // in which it is computed
  bool operator==(const TypedExpr&) const = default;
};

/// What is known inside a loop.
struct KeepScope {
  std::function<bool(Symbol)> is_available;
  /// Whether the value of a reduction was computed before the loop.
  std::function<bool(const Expr& reduction, ValueType type)> is_ready;
  const Program& source;
};

/// Whether the operations of an iteration over `index` cost more than storing the value and loading it: what does not
/// depend on the index is computed before the loop.
bool is_worth_keeping(const Expr& value, Symbol index);

/// The largest values of one iteration over `index` that both the bodies of this loop and those of later loops compute,
/// and that cost more than storing and loading them: without loops of their own.
std::vector<TypedExpr> values_to_keep(std::span<const TypedExpr> now, std::span<const TypedExpr> later, Symbol index,
                                      const KeepScope& scope);

}  // namespace moxie
