#pragma once
// A module of the emulated device: a shared object, made from the text of kernels.
#include <memory>
#include <string>

#include "codegen_templates/cuda_emu/machine.h"

namespace moxie::cuda::emulator {

/// A shared object as Driver::ModuleLoadData takes it: with its length, which the driver is not told.
std::string module_image(const std::string& shared_object);

class LoadedModule {
 public:
  /// Throws DriverError for bytes that no module_image() gave or that cannot be loaded.
  LoadedModule(const void* image, moxie_emulation::Machine& machine);
  /// Throws DriverError where there is no such kernel.
  const moxie_emulation::EntryPoint& entry(const std::string& name) const;

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Close> library_;
};

}  // namespace moxie::cuda::emulator
