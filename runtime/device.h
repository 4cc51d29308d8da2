#pragma once
// Device: where a Plan runs.
#include <functional>
#include <memory>
#include <string>

#include "runtime/kernel_cache.h"
#include "runtime/plan.h"

namespace moxie {

/// A Plan made ready for one device and one set of extents.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs every step once. `address` gives the memory of each input and output. Throws DeviceError where a formula left its domain.
  virtual void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) = 0;
  /// Bytes held besides inputs and outputs.
  virtual std::int64_t workspace_bytes() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// Compiles what the device has not compiled before.
  virtual std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) = 0;
  /// What its kernel cache has done so far; nothing where there is no cache.
  virtual CacheStats cache_stats() const { return {}; }
  /// Kernels that came from files of MOXIE_KERNEL_OVERRIDE so far.
  virtual std::size_t overridden_kernels() const { return 0; }
};

struct DeviceOptions {
  int threads = 0;            // 0: as many as the machine has
  std::string cache_directory;  // empty: the default; "0": no cache on disk
  bool tune = false;  // schedules by measurement, kept in the cache; the order of sums may differ from the default
};
/// "cpu" or "interp"; throws DeviceError for another name, listing those there are.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

}  // namespace moxie
