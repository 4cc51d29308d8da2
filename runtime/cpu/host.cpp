#include "runtime/cpu/host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr const char* kX86 = "x86_64-unknown-linux-gnu";
constexpr const char* kArm = "aarch64-unknown-linux-gnu";

// The CPU name stays generic: a name would let LLVM use whatever that model has, also where a virtual machine masks it.
// fast-gather only chooses gather instructions over one branch per lane.
const std::string kAvx2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+bmi,+bmi2,+fast-gather";
const std::string kAvx512 = kAvx2 + ",+avx512f,+avx512vl,+avx512dq,+avx512bw";

const std::array<MachineLevel, 4>& levels() {
  static const std::array<MachineLevel, 4> table{{{"x86-64-v4", {kX86, "x86-64", kAvx512, 512}},
                                                  {"x86-64-v3", {kX86, "x86-64", kAvx2, 256}},
                                                  {"x86-64", {kX86, "x86-64", "+sse2", 128}},
                                                  {"aarch64", {kArm, "generic", "+neon", 128}}}};
  return table;
}

}  // namespace

std::span<const MachineLevel> machine_levels() { return levels(); }

const VectorMachine& machine_level(std::string_view name) {
  const auto found = std::ranges::find(levels(), name, &MachineLevel::name);
  if (found != levels().end()) return found->machine;
  std::vector<std::string_view> names;
  for (const MachineLevel& level : levels()) names.push_back(level.name);
  throw CompileError(fmt::format("unknown CPU level '{}'; known are {}", name, fmt::join(names, ", ")));
}

bool host_supports(std::string_view level) {
#if defined(__x86_64__)
  if (level == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4");
  if (level == "x86-64-v3") return __builtin_cpu_supports("x86-64-v3");
  return level == "x86-64";
#elif defined(__aarch64__)
  return level == "aarch64";  // Advanced SIMD is part of the base architecture
#else
  return level.empty();
#endif
}

const VectorMachine& host_machine(int vector_bits) {
  const MachineLevel* widest = nullptr;
  for (const MachineLevel& level : levels()) {
    if (!host_supports(level.name)) continue;
    widest = &level;
    if (level.machine.vector_bits <= vector_bits) break;
  }
  if (widest == nullptr)
    throw CompileError("moxie compiles CPU kernels for x86-64 and aarch64 only; this processor is neither");
  return widest->machine;
}

}  // namespace moxie
