#pragma once
// What the values of a tensor are declared to satisfy.
#include <optional>
#include <string>

namespace moxie {

/// As declared: `input var[S,N] >= 0` and `let v[s] >= 0 = ...` are NonNegative, `input p[S] >= 0 and <= 1` holds
/// probabilities. Rewrites prove signs from it, and `moxie check` draws valid values of inputs.
struct ValueDomain {
  struct Bound {
    double value = 0;
    bool open = false;  // whether the value itself is outside
    bool operator==(const Bound&) const = default;
  };
  std::optional<Bound> low, high;
  bool operator==(const ValueDomain&) const = default;

  static const ValueDomain Any, NonNegative, Positive, Negative;
  static constexpr ValueDomain above(double bound) { return {Bound{bound, true}, {}}; }
  static constexpr ValueDomain below(double bound) { return {{}, Bound{bound, true}}; }
  /// Both ends are inside.
  static constexpr ValueDomain between(double low, double high) { return {Bound{low}, Bound{high}}; }
};

inline constexpr ValueDomain ValueDomain::Any = {};
inline constexpr ValueDomain ValueDomain::NonNegative = {Bound{0, false}, {}};
inline constexpr ValueDomain ValueDomain::Positive = {Bound{0, true}, {}};
inline constexpr ValueDomain ValueDomain::Negative = {{}, Bound{0, true}};

/// ">= 0 and < 1"; empty for Any.
std::string to_string(const ValueDomain& domain);
/// NaN and infinities are admitted by Any alone.
bool admits(const ValueDomain& domain, double value);

}  // namespace moxie
