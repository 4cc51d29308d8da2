// A batched Program gives for each sample what the Program gives for it alone.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/program/batched.h"
#include "tests/property/check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

constexpr std::size_t kSamples = 3;

/// About half of the inputs, by the seed.
std::vector<std::string> some_inputs(const Sample& sample) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < sample.program.inputs.size(); ++k) {
    if ((sample.seed >> k & 1U) != 0) names.push_back(sample.program.inputs[k].name);
  }
  return names;
}

std::vector<std::string> output_names(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

/// The first sample's outputs stand at the front of what the batch gives, and so on.
Finding batch_finding(const Sample& sample) {
  const std::vector<std::string> names = some_inputs(sample);
  const Program together = batched(sample.program, names);
  verify(together);
  if (output_names(together) != output_names(sample.program)) return "the outputs have another order";
  DimValues dims = sample.dims;
  if (!names.empty()) dims[together.dims.back().name] = kSamples;
  std::vector<TensorValues> alone;
  TensorValues inputs;
  for (std::size_t k = 0; k < kSamples; ++k) {
    TensorValues own = sample_inputs(sample.program, sample.dims, sample.seed);
    const TensorValues others = sample_inputs(sample.program, sample.dims, sample.seed + 1 + static_cast<unsigned>(k));
    for (const std::string& name : names) own[name] = others.at(name);
    for (auto& [name, values] : own) {
      const bool is_batched = std::ranges::find(names, name) != names.end();
      if (is_batched || k == 0) std::ranges::copy(values, std::back_inserter(inputs[name]));
    }
    alone.push_back(evaluate(sample.program, sample.dims, own));
  }
  const TensorValues values = evaluate(together, dims, inputs);
  for (const Definition& definition : sample.program.definitions) {
    if (!definition.output) continue;
    const std::vector<double>& found = values.at(definition.name);
    const std::size_t size = alone.front().at(definition.name).size();
    if (found.size() != size && found.size() != kSamples * size)
      return fmt::format("{} has {} elements, not {} for each sample", definition.name, found.size(), size);
    for (std::size_t k = 0; k < found.size(); ++k) {
      const double expected = alone[k / size].at(definition.name)[k % size];
      if (found[k] != expected && !(std::isnan(found[k]) && std::isnan(expected)))
        return fmt::format("{}: element {} is {}, not {}", definition.name, k, found[k], expected);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a batched program gives what the program gives for each sample") { check_property(400, batch_finding); }
