#pragma once
// What the values of an input are known to satisfy.
#include <cstdint>
#include <span>
#include <string_view>

namespace moxie {

/// As declared: `input var[S,N] >= 0` is NonNegative. Lets rewrites prove signs, and `moxie check` draw valid values.
enum class SignDomain : std::uint8_t { Any, NonNegative, Positive, Negative };

/// All but Any.
std::span<const SignDomain> sign_domains();
/// ">=": how zero follows a value of this domain; empty for Any.
std::string_view comparison(SignDomain sign);
/// "<": the contrary, for all but Any.
std::string_view violation(SignDomain sign);
/// NaN is admitted by Any alone.
bool admits(SignDomain sign, double value);

}  // namespace moxie
