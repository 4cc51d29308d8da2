#pragma once
// The cases that are compared on a GPU's emulators, where compilers take long.
#include <cstddef>
#include <string_view>

#include "compiler/expression/dtype.h"

namespace moxie::test {

inline const char* precision_of(DType dtype) { return dtype == DType::f32 ? "single" : "double"; }

/// Whether case number `number` is in the sample for the device. `cuda` in double and devices without CUDA C++ compare
/// all cases. Kernels in single differ from those in double in their types only, and cuda-emu runs the kernels of cuda:
/// each of these compares a third, and cuda-emu another third in double than in single.
inline bool is_sampled(std::string_view device, DType dtype, std::size_t number) {
  const bool is_double = dtype != DType::f32;
  if (!device.starts_with("cuda") || (device == "cuda" && is_double)) return true;
  return number % 3 == (is_double ? 1 : 0);
}

}  // namespace moxie::test
