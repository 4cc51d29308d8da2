#pragma once
// Module: PTX that is ready to run.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx_emulator/device_memory.h"
#include "tests/ptx_emulator/machine.h"
#include "tests/ptx_emulator/names.h"

namespace moxie::ptx {

/// A kernel with its operands looked up. Functions that it calls are put where the calls stand. Throws
/// Fault(invalid_ptx), which names opcodes that are not known, with their lines.
Kernel decode(const Syntax& syntax, const Function& entry, const Places& globals);

/// Kernels, and the variables of the module in the memory of the device.
class Module {
 public:
  Module(std::string text, DeviceMemory& memory);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// Null where there is none.
  const Kernel* find(const std::string& name) const;

 private:
  std::string text_;  // the views of the syntax point into it
  DeviceMemory& memory_;
  std::vector<std::uint64_t> variables_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace moxie::ptx
