#pragma once
// What the values of a tensor are declared to satisfy.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moxie {

/// As declared: `input var[S,N] >= 0` and `let v[s] >= 0 = ...` are NonNegative. Rewrites prove signs from it, and
/// `moxie check` draws valid values of inputs.
struct ValueDomain {
  enum class Relation : std::uint8_t { None, AtLeast, Above, Below };
  Relation relation = Relation::None;
  double bound = 0;
  bool operator==(const ValueDomain&) const = default;

  static const ValueDomain Any, NonNegative, Positive, Negative;
  static constexpr ValueDomain above(double bound) { return {Relation::Above, bound}; }
};

inline constexpr ValueDomain ValueDomain::Any = {};
inline constexpr ValueDomain ValueDomain::NonNegative = {Relation::AtLeast, 0};
inline constexpr ValueDomain ValueDomain::Positive = {Relation::Above, 0};
inline constexpr ValueDomain ValueDomain::Negative = {Relation::Below, 0};

/// All but None.
std::span<const ValueDomain::Relation> value_relations();
/// ">=": how the bound follows a value; empty for None.
std::string_view comparison(ValueDomain::Relation relation);
/// ">= 0"; empty for Any.
std::string to_string(const ValueDomain& domain);
/// NaN and infinities are admitted by Any alone.
bool admits(const ValueDomain& domain, double value);

}  // namespace moxie
