#pragma once
// A formula with its gradient at a random point of its domain, and what devices make of it.
#include <filesystem>
#include <string>

#include "runtime/device.h"
#include "tests/aot/c_caller.h"

namespace moxie::test {

/// All outputs, and the gradients of them with respect to all that the operation does not hold constant.
CCall sample_call(const std::string& function, const Program& program, DType dtype = DType::f32);

/// "cpu:x86-64-v4": the widest level of this processor.
std::string host_target();

/// The values of static dims.
DimValues static_dims(const CCall& call);

Tensors run_on(const CCall& call, const std::shared_ptr<Device>& device);

/// Removed with all that it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace moxie::test
