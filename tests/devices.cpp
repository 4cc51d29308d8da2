#include "tests/devices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "runtime/switches.h"
#include "tests/skip.h"

namespace moxie::test {
namespace {

constexpr const char* kUsual =
#ifdef MOXIE_TEST_CPU
    "interp,cpu,cuda-emu";
#else
    "interp,cuda-emu";
#endif

bool takes_part(std::string_view name) {
  const char* wanted = std::getenv("TEST_DEVICES");
  const auto names = split_list(wanted != nullptr ? wanted : kUsual);
  return std::ranges::find(names, name) != names.end();
}

/// Compilers take most of the time of a test on a GPU, real or emulated, and many tests have kernels in common: they
/// stay where the environment says, if it does.
bool has_own_cache(std::string_view name) {
  return (name == "cuda" || name == "cuda-emu") && std::getenv("MOXIE_CACHE_DIR") != nullptr;
}

}  // namespace

std::shared_ptr<Device> test_device(std::string_view name, DeviceOptions options) {
  if (!takes_part(name)) return nullptr;
  if (options.cache_directory.empty() && !has_own_cache(name)) options.cache_directory = "0";
  if (name != "cuda") return open_device(name, options);
  try {
    return open_device(name, options);
  } catch (const DeviceError& error) {
    skip(std::string("no device cuda: ") + error.what());
    return nullptr;
  }
}

std::vector<std::shared_ptr<Device>> test_devices() {
  std::vector<std::shared_ptr<Device>> found;
  for (const std::string_view name : {"interp", "cpu", "cuda-emu", "cuda"}) {
    if (auto device = test_device(name)) found.push_back(std::move(device));
  }
  return found;
}

TensorValues wave_inputs(const Program& program, const DimValues& dims) {
  TensorValues inputs;
  for (const InputDecl& input : program.inputs) {
    std::vector<double>& values = inputs[input.name];
    for (std::int64_t k = 0; k < count_elements(program, input.name, dims); ++k)
      values.push_back(static_cast<float>(std::sin(1 + 0.37 * static_cast<double>(k))));
  }
  return inputs;
}

TensorValues run_on(const std::shared_ptr<Device>& device, const Program& program, const DimValues& dims,
                    const TensorValues& inputs) {
  DimValues fixed;
  for (const DimDecl& dim : program.dims) {
    if (const auto it = dims.find(dim.name); it != dims.end() && !dim.dynamic) fixed[dim.name] = it->second;
  }
  Session session(program, fixed, device);
  for (const InputDecl& input : program.inputs) {
    session.set(input.name,
                make_host_tensor(input.dtype, extents_of(program, input.name, dims), inputs.at(input.name)));
  }
  session.run();
  TensorValues outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs[definition.name] = to_doubles(session.get(definition.name));
  }
  return outputs;
}

}  // namespace moxie::test
