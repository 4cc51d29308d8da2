// Whether a monoid is one, on random states: a Program computes both sides of each law.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "compiler/program/monoid.h"
#include "compiler/reference/evaluate.h"

namespace moxie {
namespace {

constexpr std::array kStates = {"x", "y", "z"};

struct Law {
  const char* broken;  // a sentence that is true where the law does not hold
  std::size_t states;  // of kStates, that it is about
  State got, wanted;
};

State sample_of(const Monoid& monoid, const std::string& state) {
  State components;
  for (const auto& component : monoid.components)
    components.push_back(tensor_access(state + "." + component.name, {Symbol::axis(0)}));
  return components;
}

std::vector<Law> laws_of(const Monoid& monoid) {
  const State x = sample_of(monoid, "x"), y = sample_of(monoid, "y"), z = sample_of(monoid, "z");
  const auto both = [&](const State& a, const State& b) { return monoid.combined(a, b); };
  return {{"combine(identity, x) is not x", 1, both(monoid.identity(), x), x},
          {"combine(x, identity) is not x", 1, both(x, monoid.identity()), x},
          {"combine(combine(x, y), z) is not combine(x, combine(y, z))", 3, both(both(x, y), z), both(x, both(y, z))}};
}

/// A number of the domain; a whole one where there is one nearby, so that equal ones meet.
double draw(const ValueDomain& domain, bool whole, std::mt19937_64& random) {
  const double u = std::ldexp(static_cast<double>(random() >> 11) + 0.5, -53), wide = 6 * u - 3;
  double value = wide;
  if (domain.low && domain.high)
    value = domain.low->value + u * (domain.high->value - domain.low->value);
  else if (domain.low)
    value = domain.low->value + 3 * u;
  else if (domain.high)
    value = domain.high->value - 3 * u;
  const double rounded = std::nearbyint(value);
  return whole && admits(domain, rounded) ? rounded : value;
}

TensorValues draw_states(const Monoid& monoid, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorValues values;
  for (const char* state : kStates) {
    for (const auto& component : monoid.components) {
      std::vector<double>& drawn = values[std::string(state) + "." + component.name];
      for (std::int64_t k = 0; k < kLawSamples; ++k) drawn.push_back(draw(component.domain, k % 2 == 0, random));
    }
  }
  return values;
}

/// Outputs `got.LAW.COMPONENT` and `wanted.LAW.COMPONENT`.
Program law_program(const Monoid& monoid, const std::vector<Law>& laws) {
  Program program("laws", DType::f64);
  for (const char* state : kStates) {
    for (const auto& component : monoid.components)
      program.inputs.push_back({std::string(state) + "." + component.name, DType::f64, {Affine(kLawSamples)}});
  }
  const std::vector<AxisDecl> axes = {{"k", Affine(kLawSamples), Range::extent(Affine(kLawSamples))}};
  for (std::size_t law = 0; law < laws.size(); ++law) {
    for (std::size_t k = 0; k < monoid.components.size(); ++k) {
      program.definitions.push_back({fmt::format("got.{}.{}", law, k), DType::f64, axes, laws[law].got[k], true});
      program.definitions.push_back({fmt::format("wanted.{}.{}", law, k), DType::f64, axes, laws[law].wanted[k], true});
    }
  }
  return program;
}

std::string state_text(const Monoid& monoid, const std::string& state, const TensorValues& values, std::size_t sample) {
  std::vector<std::string> parts;
  for (const auto& component : monoid.components)
    parts.push_back(
        fmt::format("{}.{} = {:.6g}", state, component.name, values.at(state + "." + component.name)[sample]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool agree(double got, double wanted, double scale) {
  if (std::isnan(got) || std::isnan(wanted)) return std::isnan(got) && std::isnan(wanted);
  return got == wanted || std::abs(got - wanted) <= kLawTolerance * (scale + 1);
}

/// The largest magnitude among the states of a sample and what is compared.
double scale_of(const Monoid& monoid, const TensorValues& inputs, std::size_t sample, double got, double wanted) {
  double scale = std::max(std::abs(got), std::abs(wanted));
  for (const char* state : kStates) {
    for (const auto& component : monoid.components)
      scale = std::max(scale, std::abs(inputs.at(std::string(state) + "." + component.name)[sample]));
  }
  return std::isfinite(scale) ? scale : 0;
}

}  // namespace

std::optional<BrokenLaw> broken_law(const Monoid& monoid, std::uint64_t seed) {
  const std::vector<Law> laws = laws_of(monoid);
  const TensorValues inputs = draw_states(monoid, seed);
  const TensorValues values = evaluate(law_program(monoid, laws), {}, inputs);
  for (std::size_t law = 0; law < laws.size(); ++law) {
    for (std::size_t k = 0; k < monoid.components.size(); ++k) {
      const std::vector<double>& got = values.at(fmt::format("got.{}.{}", law, k));
      const std::vector<double>& wanted = values.at(fmt::format("wanted.{}.{}", law, k));
      for (std::size_t sample = 0; sample < got.size(); ++sample) {
        if (agree(got[sample], wanted[sample], scale_of(monoid, inputs, sample, got[sample], wanted[sample]))) continue;
        std::vector<std::string> states;
        for (std::size_t state = 0; state < laws[law].states; ++state)
          states.push_back(state_text(monoid, kStates[state], inputs, sample));
        return BrokenLaw{laws[law].broken, fmt::format("{}", fmt::join(states, ", ")),
                         fmt::format("component `{}` is {:.6g}, but {:.6g} is expected", monoid.components[k].name,
                                     got[sample], wanted[sample])};
      }
    }
  }
  return std::nullopt;
}

}  // namespace moxie
