#include "tests/ptx_emulator/kernel_runner.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{1} << 24;
constexpr std::size_t kElements = 64;

}  // namespace

std::string kernel_text(const std::string& body, std::size_t parameters, const std::string& before) {
  std::string list, loads;
  for (std::size_t k = 0; k < parameters; ++k) {
    list += fmt::format("{} .param .u64 p{}", k == 0 ? "" : ",", k);
    loads += fmt::format("  ld.param.u64 %a{0}, [p{0}];\n", k);
  }
  return fmt::format(
      ".version 8.0\n.target sm_90\n.address_size 64\n{}\n.visible .entry k({} )\n{{\n  .reg .pred %p<20>;\n"
      "  .reg .b16 %h<20>;\n  .reg .b32 %r<20>;\n  .reg .f32 %f<20>;\n  .reg .b64 %rd<20>;\n  .reg .f64 %d<20>;\n"
      "  .reg .b64 %a<{}>;\n{}{}\n  ret;\n}}\n",
      before, list, parameters + 1, loads, body);
}

void run_kernel(const std::string& text, DeviceMemory& memory, const std::vector<std::uint64_t>& addresses,
                const Shape& shape) {
  const Module module(text, memory);
  const Kernel* kernel = module.find("k");
  std::vector<std::byte> parameters(addresses.size() * sizeof(std::uint64_t));
  std::memcpy(parameters.data(), addresses.data(), parameters.size());
  run_grid({*kernel, shape.grid, shape.block, std::move(parameters), memory}, shape.order);
}

std::string fault_of(const std::string& body, const Shape& shape, const std::string& before) {
  DeviceMemory memory(kCapacity);
  const Array<float> array(memory, std::vector<float>(kElements));
  try {
    run_kernel(kernel_text(body, 1, before), memory, {array.address()}, shape);
    return {};
  } catch (const Fault& fault) {
    return fault.what();
  }
}

}  // namespace moxie::ptx
