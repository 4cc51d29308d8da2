#pragma once
// What kernels take of a GPU, by NVIDIA's assembler.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace moxie::cuda {

struct KernelResources {
  std::int64_t registers = 0;  // per thread
  std::int64_t shared_bytes = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  bool operator==(const KernelResources&) const = default;
};

/// By kernel, from the log of a compilation with --ptxas-options=-v. Kernels that the log does not show are missing:
/// PTX has no registers yet.
std::map<std::string, KernelResources> resource_report(std::string_view log);

}  // namespace moxie::cuda
