#include "tools/commands/sample_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/arithmetic/exact_integer.h"
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

/// Integers that every subscript they stand in alone admits; from 0 to 3, or four from the declared bound on, where
/// none says more.
std::vector<double> sample_integers(const Program& program, const InputDecl& input, const DimValues& dims,
                                    std::size_t count, std::uint64_t seed) {
  const auto& domain = input.domain;
  std::int64_t low = domain.low ? first_inside(*domain.low) : domain.high ? last_inside(*domain.high) - 3 : 0;
  std::int64_t high = domain.high ? last_inside(*domain.high) : low + 3;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const Definition& definition : program.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (!reads_by_value(e)) return;
      const std::vector<std::int64_t> extents = extents_of(program, e->tensor, dims);
      for (std::size_t k = 0; k < e->args.size(); ++k) {
        if (e->args[k]->tensor != input.name) continue;
        for (std::size_t axis = 0; axis < extents.size(); ++axis) {
          const Affine offset = e->subscripts[axis] - Affine(Symbol::value(static_cast<std::uint32_t>(k)));
          if (!e->subscripts[axis].mentions_value() || !offset.is_constant()) continue;
          most = std::min(most, extents[axis] - 1 - offset.constant());
          low = std::max(low, -offset.constant());
        }
      }
    });
  }
  if (most != std::numeric_limits<std::int64_t>::max()) high = domain.high ? std::min(high, most) : most;
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
  for (const InputDecl& input : program.inputs) {
    const auto count = static_cast<std::size_t>(element_count(extents_of(program, input.name, dims)));
    inputs[input.name] = holds_integers(input.dtype) ? sample_integers(program, input, dims, count, seed++)
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
