#pragma once
// Monoid: a reduction that the user defines, by an identity and an associative operation on states of one or several
// components: `reduction affine(a, b) identity (1, 0) combine(f, g) = (g.a*f.a, g.a*f.b + g.b)`.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// One number for each component of a monoid's state.
using State = std::vector<Expr>;

struct Monoid {
  struct Component {
    std::string name;
    double identity = 0;
    ValueDomain domain = {};  // of the states that occur; check_laws() draws inside
    bool operator==(const Component&) const = default;
  };

  std::string name;
  std::vector<Component> components;
  State combine;  // of the states left() and right()
  Expr finish;    // of the state left(); empty where results are named by component

  Monoid() = default;
  /// `combine_states` and `finish_state` are called once, with expressions that stand for the components of states.
  Monoid(std::string monoid_name, std::vector<Component> state_components,
         const std::function<State(const State& left, const State& right)>& combine_states,
         const std::function<Expr(const State&)>& finish_state = {});

  /// Stand for the components of a state in `combine` and `finish`. They are accesses to scalars.
  State left() const { return placeholders("left."); }
  State right() const { return placeholders("right."); }
  State identity() const;
  State combined(const State& left_state, const State& right_state) const;
  Expr finished(const State& state) const;
  /// The same with the sides of combine exchanged.
  Monoid mirrored() const;
  /// The position of a component. Nothing for an unknown name.
  std::optional<std::size_t> find(std::string_view component) const;
  bool operator==(const Monoid&) const = default;

 private:
  State placeholders(const std::string& side) const;
};

/// The expression, with other expressions in the place of accesses to scalars of these names.
Expr replace_scalars(const Expr& expr, const std::vector<std::pair<std::string, Expr>>& replacement);

/// Which law of monoids random states break.
struct BrokenLaw {
  std::string law;  // "combine(identity, x) is not x"
  std::string states, difference;
};
inline constexpr double kLawTolerance = 1e-9;
inline constexpr std::int64_t kLawSamples = 256;
/// Tests that the identity is neutral on both sides and that combine is associative: on kLawSamples states, half of
/// them of whole numbers, in double. A component x may differ by kLawTolerance*(max|x| + 1), where the maximum is over
/// what is compared and the states that it was computed from. Deterministic for equal seeds.
std::optional<BrokenLaw> broken_law(const Monoid& monoid, std::uint64_t seed);

}  // namespace moxie
