#pragma once
// What is known of an expression's sign, from the domains of the inputs.
#include "compiler/ir/program.h"

namespace moxie {

enum class Sign : std::uint8_t { Unknown, NonNegative, Positive, NonPositive, Negative, Zero };

Sign sign_of(const Expr& expr, const Program& program);
bool is_non_negative(Sign sign);
bool is_non_positive(Sign sign);

}  // namespace moxie
