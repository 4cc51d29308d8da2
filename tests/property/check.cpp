#include "tests/property/check.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compiler/analysis/verify_definition.h"
#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "tests/property/minimise.h"
#include "tests/property/random.h"

namespace moxie::test {
namespace {

constexpr double kLargestValue = 1e5;

unsigned switch_value(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

/// What the property finds; an exception is a finding too.
Finding find(const Property& property, const Sample& sample) {
  try {
    return property(sample);
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
}

bool is_moderate(const TensorValues& values) {
  for (const auto& [name, tensor] : values) {
    for (const double x : tensor) {
      if (!(std::abs(x) < kLargestValue)) return false;
    }
  }
  return true;
}

TensorValues moved(TensorValues inputs, double change) {
  Random random(7);
  for (auto& [name, tensor] : inputs) {
    for (double& x : tensor) x *= 1 + change * random.real(-1, 1);
  }
  return inputs;
}

bool has_empty_tensor(const Program& program, const DimValues& dims) {
  const auto is_empty = [&](const Affine& extent) {
    return extent.evaluate([&](Symbol dim) { return dims.at(dim.name()); }) <= 0;
  };
  const auto has_none = [&](const auto& tensor) {
    return std::ranges::any_of(program.shape_of(tensor.name), is_empty);
  };
  return std::ranges::any_of(program.inputs, has_none) || std::ranges::any_of(program.definitions, has_none);
}

/// Whether an access leaves its tensor for these values of dynamic dims, which verify() alone cannot know.
bool is_refused(const Program& program, const DimValues& dims) {
  try {
    verify_for(program, dims);
    return false;
  } catch (const ShapeError&) {
    return true;
  }
}

std::optional<Reference> reference_of(Program program, const DimValues& dims, unsigned seed, double change,
                                      double sensitivity) {
  Reference result{std::move(program), {}, {}};
  result.inputs = sample_inputs(result.program, dims, seed);
  for (const InputDecl& input : result.program.inputs) {
    for (double& value : result.inputs.at(input.name)) value = stored_value(input.dtype, value);
  }
  try {
    result.values = evaluate(result.program, dims, result.inputs);
    if (!is_moderate(result.values)) return std::nullopt;
    const TensorValues other = evaluate(result.program, dims, moved(result.inputs, change));
    if (difference(result.program, other, result.values, sensitivity)) return std::nullopt;
  } catch (const DeviceError&) {
    return std::nullopt;
  } catch (const ShapeError&) {
    if (!has_empty_tensor(result.program, dims) && !is_refused(result.program, dims)) throw;
    return std::nullopt;  // reads of a tensor without elements, or dims that no Session takes
  }
  return result;
}

Finding difference_of(const std::string& name, const std::vector<double>& got, const std::vector<double>& want,
                      double tolerance) {
  if (got.size() != want.size()) return fmt::format("{} has {} elements instead of {}", name, got.size(), want.size());
  double scale = 1;
  for (const double x : want) scale = std::max(scale, std::abs(x));
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (std::abs(got[k] - want[k]) <= tolerance * scale) continue;
    return fmt::format("element {} of {} is {:.17g} instead of {:.17g}", k, name, got[k], want[k]);
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const Sample& sample) {
  std::string dims;
  for (const auto& [name, value] : sample.dims) dims += fmt::format(" {}={}", name, value);
  return fmt::format("{}# seed {},{}\n", print(sample.program), sample.seed, dims);
}

void check_property(unsigned count, const Property& property) {
  const unsigned first = switch_value("PROPERTY_FIRST", 1);
  for (unsigned seed = first; seed < first + count * switch_value("PROPERTY_SEEDS", 1); ++seed) {
    const Sample sample = random_sample(seed);
    INFO("seed ", seed);
    const Finding finding = find(property, sample);
    if (!finding) continue;
    const Sample small =
        minimise(sample, [&](const Sample& candidate) { return find(property, candidate).has_value(); });
    FAIL_CHECK(fmt::format("seed {}: {}\nmade small: {}\n{}", seed, *finding,
                           find(property, small).value_or("(no longer fails)"), describe(small)));
  }
}

std::optional<Reference> reference(const Sample& sample, double change, double sensitivity) {
  verify(sample.program);
  return reference_of(specialise(sample.program, static_dims(sample)), sample.dims, sample.seed, change, sensitivity);
}

std::optional<Reference> gradient_reference(const Sample& sample, double change, double sensitivity) {
  if (!reference(sample, change, sensitivity)) return std::nullopt;
  std::vector<std::string> outputs;
  for (const Definition& definition : sample.program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  const Program gradient = differentiate(sample.program, outputs, {});
  verify(gradient);
  return reference_of(specialise(gradient, static_dims(sample)), sample.dims, sample.seed, change, sensitivity);
}

Finding difference(const Program& program, const TensorValues& got, const TensorValues& want, double tolerance) {
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    if (auto finding = difference_of(definition.name, got.at(definition.name), want.at(definition.name), tolerance))
      return finding;
  }
  return std::nullopt;
}

}  // namespace moxie::test
