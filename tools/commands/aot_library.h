#pragma once
// A library of `moxie aot` in this process, for the commands that describe, run and measure it.
#include <filesystem>
#include <memory>

#include "runtime/aot/manifest.h"
#include "runtime/host_tensor.h"

namespace moxie {

/// Of a manifest, a library, a program with a library in it, or the folder of a library. Throws DataError.
aot::Manifest manifest_of(const std::filesystem::path& file);

/// The library linked by this machine's C compiler and loaded.
class AotLibrary {
 public:
  /// Throws DataError for a library of another machine or one without code for CPUs, DeviceError where it cannot be
  /// linked.
  explicit AotLibrary(const std::filesystem::path& file);
  ~AotLibrary();
  AotLibrary(const AotLibrary&) = delete;
  AotLibrary& operator=(const AotLibrary&) = delete;

  const aot::Manifest& manifest() const { return manifest_; }
  /// The function of this name; the first one if it is empty. Throws UsageError with the names that there are.
  const aot::FunctionEntry& function(const std::string& name) const;
  double load_seconds() const { return load_seconds_; }

 private:
  friend class AotCall;
  aot::Manifest manifest_;
  void* handle_ = nullptr;
  double load_seconds_ = 0;
};

/// One function with all that a call needs.
class AotCall {
 public:
  using Tensors = std::map<std::string, HostTensor>;

  /// Throws ShapeError for inputs that do not fit.
  AotCall(const AotLibrary& library, const aot::FunctionEntry& function, Tensors inputs, std::uint64_t seed,
          std::uint64_t step);

  /// Throws DeviceError with the function's message where it fails.
  void run();
  const Tensors& outputs() const { return outputs_; }
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(workspace_.size()); }

 private:
  using Run = int(const std::int64_t* arguments, void* workspace, std::int64_t bytes, void* message);
  using Workspace = int(const std::int64_t* arguments, std::int64_t* bytes, void* message);

  void bind(const aot::Interface& interface, const Program& program, std::uint64_t seed, std::uint64_t step);

  Tensors inputs_, outputs_;
  std::vector<std::int64_t> arguments_;
  std::vector<std::byte> workspace_;
  Run* run_ = nullptr;
};

}  // namespace moxie
