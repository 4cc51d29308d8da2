#pragma once
// Device: where a Plan runs.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/buffer.h"
#include "runtime/cuda/gpu_models.h"
#include "runtime/kernel_cache.h"
#include "runtime/launch_observer.h"
#include "runtime/plan.h"
#include "runtime/program_options.h"

namespace moxie {

/// A Plan made ready for one device and one set of extents.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs every step once. `address` gives the memory of each input and output as kernels see it. Throws DeviceError
  /// where a formula left its domain; a device that works ahead of the host throws it when a buffer is read.
  virtual void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) = 0;
  /// Bytes held besides inputs and outputs.
  virtual std::int64_t workspace_bytes() const = 0;
};

/// Any number of threads may use a Device at the same time.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// Compiles what the device has not compiled before. The device must outlive the result.
  virtual std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) = 0;
  /// Empty memory for a tensor, on the device if it has memory of its own.
  virtual std::unique_ptr<Buffer> make_buffer() { return make_host_buffer(); }
  /// Memory of the caller in which kernels work as it is, or null where its values must be copied from and to the host:
  /// here, unless they lie row by row, aligned as their dtype. Throws DeviceError for memory of another device.
  virtual std::unique_ptr<Buffer> view_buffer(const TensorView& view);
  /// Whether kernels work in such memory alone, and never in other memory of the host.
  virtual bool has_own_memory() const { return false; }
  /// Waits for all runs so far. Throws DeviceError if one of them failed.
  virtual void wait() {}
  /// What its kernel cache has done so far; nothing where there is no cache.
  virtual CacheStats cache_stats() const { return {}; }
  /// What the plans of the Program are made for, but for extents. Without a machine or a GPU, fusion alone arranges the
  /// loops.
  virtual PlanTarget plan_target(const Program& /*program*/) const { return {}; }
  /// Where plans for it are kept; null: nowhere.
  virtual KernelCache* plan_cache() { return nullptr; }
  /// The GPU that its kernels run on, or seem to run on.
  virtual std::optional<GpuModel> gpu() const { return std::nullopt; }
  /// Kernels that came from files of MOXIE_KERNEL_OVERRIDE so far.
  virtual std::size_t overridden_kernels() const { return 0; }
  /// As it was opened with them.
  const ProgramOptions& program_options() const { return program_options_; }
  void set_program_options(ProgramOptions options) { program_options_ = std::move(options); }

 private:
  ProgramOptions program_options_;
};

struct DeviceOptions {
  int threads = 0;              // at most maximum_threads() of runtime/cpu/thread_pool.h; 0: all processors
  std::string cache_directory;  // empty: the default; "0": no cache on disk
  bool tune = false;  // schedules by measurement, kept in the cache; the order of sums may differ from the default
  std::function<void(const std::string& reason)> on_fallback = {};  // called if `auto` takes the CPU
  std::string schedule = {};                      // of kernels, as in MOXIE_SCHEDULE, which counts if this is empty
  std::shared_ptr<LaunchObserver> observer = {};  // called by the device `cpu`
  /// A CUstream or cudaStream_t of the GPU's primary context, on which all is enqueued in order in place of a stream of
  /// the device's own: kernels, copies, and what waits for them. run() waits for nothing then, but to be at most two
  /// runs ahead of copies from the host. The stream outlives the device and everything opened on it, and is not being
  /// captured; no other thread enqueues on it during a call. Null: a stream of its own. For `cuda` only.
  void* stream = nullptr;
  ProgramOptions programs = {};      // for the Sessions and CompiledFunctions on the device
  std::string kernel_override = {};  // a folder of hand-edited kernels, as in MOXIE_KERNEL_OVERRIDE
  DumpRequest dump = {};             // what is written of all that is compiled
};
/// The folder of its kernel cache; empty for no cache on disk.
std::filesystem::path cache_directory(const DeviceOptions& options);

/// The device that was given; throws TypeError if none was.
std::shared_ptr<Device> require_device(std::shared_ptr<Device> device);
/// Throws DeviceError: memory of this device is no memory for tensors of that one.
[[noreturn]] void refuse_memory_of(const std::string& memory, const std::string& device);
/// "cpu", "interp", ... and "auto": the first GPU if there is one, else the CPU.
std::span<const std::string_view> device_names();
/// What is wrong with a name of a device, and what it may be; empty for one of device_names(), or for that of a GPU
/// with its number from 0, "cuda:1", whether or not the machine has so many.
std::string problem_with_device_name(std::string_view name);
/// Throws DeviceError for another name, listing those there are, and for a device that this machine does not have;
/// TypeError for a number of threads beyond the maximum.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

}  // namespace moxie
