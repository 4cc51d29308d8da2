#pragma once
// The stages of a compilation, in the order of the pipeline.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

struct Stage {
  std::string_view name;  // "loop"
  std::string_view purpose;
  enum class Of { both, cpu, gpu } of = Of::both;
};

std::span<const Stage> dump_stages();

/// Whose kernels a dump shows.
struct DumpedDevices {
  bool cpu = true, gpu = true;
  bool operator==(const DumpedDevices&) const = default;
};
/// Both, unless all of these stages are of one of them.
DumpedDevices devices_of(const std::vector<std::string>& stages);

}  // namespace moxie
