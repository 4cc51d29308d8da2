#include "tools/commands/sample_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <ranges>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/functions.h"
#include "runtime/host_tensor.h"
#include "runtime/plan.h"

namespace moxie {
namespace {

bool is_square(const InputDecl& input) {
  const std::size_t rank = input.shape.size();
  return rank >= 2 && input.shape[rank - 1] == input.shape[rank - 2];
}

/// Every matrix of a batch.
void make_covariances(std::vector<double>& values, std::size_t size) {
  const std::vector<double> from = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i - i % size, other = mirrored(i, size) - mirrored(i, size) % size;
    double sum = row == other ? static_cast<double>(size) / 2 : 0;
    for (std::size_t k = 0; k < size; ++k) sum += from[row + k] * from[other + k];
    values[i] = static_cast<double>(static_cast<float>(sum / static_cast<double>(size)));
  }
}

}  // namespace

DimValues choose_dims(const Program& program, const DimValues& given) {
  constexpr std::int64_t kSamples = 7;
  constexpr std::int64_t kSmallest = 3, kKinds = 3;
  DimValues dims = given;
  std::int64_t next = 0;
  for (const DimDecl& dim : program.dims) {
    const std::int64_t small = dim.name == "S" ? kSamples : kSmallest + next++ % kKinds;
    dims.emplace(dim.name, dim.value.value_or(small));
  }
  return dims;
}

std::vector<double> sample_values(const ValueDomain& domain, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> any;
  // Below 1, since rates and probabilities are declared >= 0; scales, declared > 0, keep away from 0.
  std::uniform_real_distribution<double> at_least(0.1, 0.9), above(0.5, 1.5);
  const auto distance = [&](const ValueDomain::Bound& bound) { return bound.open ? above(random) : at_least(random); };
  const auto& [low, high] = domain;
  std::vector<double> values(count);
  for (double& value : values) {
    if (low && high)
      value = low->value + at_least(random) * (high->value - low->value);
    else if (low)
      value = low->value + distance(*low);
    else
      value = high ? high->value - distance(*high) : any(random);
    value = static_cast<double>(static_cast<float>(value));
  }
  return values;
}

namespace {

/// The least integer inside the domain, or the greatest.
std::int64_t first_inside(const ValueDomain::Bound& low) {
  return static_cast<std::int64_t>(low.open ? std::floor(low.value) + 1 : std::ceil(low.value));
}
std::int64_t last_inside(const ValueDomain::Bound& high) {
  return static_cast<std::int64_t>(high.open ? std::ceil(high.value) - 1 : std::floor(high.value));
}

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// What the subscripts that an integer stands in alone admit.
struct Limits {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = kNoLimit;
};
using LimitsOf = std::map<std::string, Limits>;

void narrow(LimitsOf& known, const std::string& tensor, const Limits& limits) {
  Limits& of_tensor = known[tensor];
  of_tensor.low = std::max(of_tensor.low, limits.low);
  of_tensor.high = std::min(of_tensor.high, limits.high);
}

void add_limits_of_access(const Program& program, const DimValues& dims, const Expr& access, LimitsOf& known) {
  const std::vector<std::int64_t> extents = extents_of(program, access->tensor, dims);
  for (std::size_t k = 0; k < access->args.size(); ++k) {
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      const Affine offset = access->subscripts[axis] - Affine(Symbol::value(static_cast<std::uint32_t>(k)));
      if (!access->subscripts[axis].mentions_value() || !offset.is_constant()) continue;
      narrow(known, access->args[k]->tensor, {-offset.constant(), extents[axis] - 1 - offset.constant()});
    }
  }
}

/// An element that a definition holds, perhaps one of several, is limited as the definition is.
void pass_limits_on(const Expr& value, const Limits& limits, LimitsOf& known) {
  if (value->kind == NodeKind::Access) return narrow(known, value->tensor, limits);
  if (!is_call(value, "where")) return;
  pass_limits_on(value->args[1], limits, known);
  pass_limits_on(value->args[2], limits, known);
}

LimitsOf limits_of_integers(const Program& program, const DimValues& dims) {
  LimitsOf known;
  for (const Definition& definition : program.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (reads_by_value(e)) add_limits_of_access(program, dims, e, known);
    });
  }
  for (const Definition& definition : std::views::reverse(program.definitions)) {
    const auto limits = known.find(definition.name);
    if (limits != known.end()) pass_limits_on(definition.body, Limits(limits->second), known);
  }
  return known;
}

/// Integers that every subscript admits; from 0 to 3, or four from the declared bound on, where none says more.
std::vector<double> sample_integers(const InputDecl& input, const Limits& limits, std::size_t count,
                                    std::uint64_t seed) {
  const auto& domain = input.domain;
  std::int64_t low = domain.low ? first_inside(*domain.low) : domain.high ? last_inside(*domain.high) - 3 : 0;
  std::int64_t high = domain.high ? last_inside(*domain.high) : low + 3;
  low = std::max(low, limits.low);
  if (limits.high != kNoLimit) high = domain.high ? std::min(high, limits.high) : limits.high;
  low = std::max(low, nearest_exact_integer(info_of(input.dtype).low));
  high = std::min(high, nearest_exact_integer(info_of(input.dtype).high));
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> within(low, std::max(low, high));
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(within(random));
  return values;
}

}  // namespace

TensorValues sample_inputs(const Program& program, const DimValues& dims, std::uint64_t seed) {
  TensorValues inputs;
  LimitsOf limits = limits_of_integers(program, dims);
  for (const InputDecl& input : program.inputs) {
    const auto count = static_cast<std::size_t>(element_count(extents_of(program, input.name, dims)));
    inputs[input.name] = holds_integers(input.dtype) ? sample_integers(input, limits[input.name], count, seed++)
                                                     : sample_values(input.domain, count, seed++);
  }
  return inputs;
}

std::size_t mirrored(std::size_t element, std::size_t size) {
  const std::size_t matrix = element / (size * size), row = element / size % size, column = element % size;
  return (matrix * size + column) * size + row;
}

std::set<std::string> make_covariances(const Program& program, const DimValues& dims, TensorValues& inputs) {
  std::set<std::string> made;
  for (const InputDecl& input : program.inputs) {
    if (!is_square(input) || holds_integers(input.dtype)) continue;
    const auto size = static_cast<std::size_t>(extents_of(program, input.name, dims).back());
    make_covariances(inputs.at(input.name), size);
    made.insert(input.name);
  }
  return made;
}

}  // namespace moxie
