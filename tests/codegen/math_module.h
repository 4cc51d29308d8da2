#pragma once
// Compiles scalar functions into kernels over arrays, each with its own loop, to call them from tests.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"
#include "compiler/codegen/llvm/text_builder.h"
#include "runtime/cpu/object_loader.h"

namespace moxie::testing {

/// A function with its number of arguments.
struct MathKernel {
  std::string_view function;
  int arity = 1;
};

/// All kernels of one type and number of lanes; T is float or double. Truth values are passed and returned as numbers.
template <typename T>
class MathModule {
 public:
  MathModule(std::span<const MathKernel> kernels, int lanes, const VectorMachine& machine);
  /// Inputs of equal length, any length.
  std::vector<T> run(std::string_view function, std::vector<std::vector<T>> inputs) const;

 private:
  using Entry = void(const T* const* inputs, T* output, std::int64_t count);
  int lanes_;
  std::unique_ptr<LoadedObject> object_;
};

/// The module that MathModule compiles. The kernel of function f is called "moxie.f".
std::string math_module_text(std::span<const MathKernel> kernels, llvm_ir::Scalar type, int lanes);

}  // namespace moxie::testing
