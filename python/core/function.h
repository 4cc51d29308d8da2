#pragma once
// PythonFunction: a Program that Python calls with arrays.
#include <nanobind/nanobind.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "python/core/arrays.h"
#include "python/core/device.h"
#include "runtime/compiled_function.h"

namespace moxie::python {

/// Threads may share it: kernels run without the GIL.
class PythonFunction {
 public:
  /// Without a dtype, inputs of the default dtype f32 may be float64 arrays as well: then everything is computed in
  /// double. Throws what verify() throws.
  PythonFunction(const Program& program, DimValues dims, std::optional<DType> dtype,
                 std::shared_ptr<DeviceHandle> device);

  /// One array for each output. `inputs` has one object for each input, in the Program's order.
  nanobind::object call(const nanobind::sequence& inputs, std::uint64_t seed, std::uint64_t step);
  /// Shapes of the outputs for inputs of these shapes.
  TensorShapes output_shapes(const TensorShapes& inputs);
  /// The dtypes of the outputs, as numpy calls them, for inputs of these dtypes. Throws PythonError (DtypeError).
  std::vector<std::string> output_dtypes(const std::vector<std::string>& inputs);
  /// The function that calls with inputs of these dtypes run, for callers without the GIL. Throws as output_dtypes().
  std::shared_ptr<CompiledFunction> compiled_for(const std::vector<std::string>& dtypes);
  /// The values of all dims in the last call; empty before the first.
  DimValues last_dims() const { return last_dims_; }
  /// Sets of extents that are kept compiled.
  std::size_t kept();

 private:
  using Compiled = std::shared_ptr<CompiledFunction>;
  Compiled compiled(DType dtype);
  /// What is computed in, for inputs of these dtypes; nothing for a number of Python. Throws PythonError (DtypeError).
  DType dtype_for(const std::vector<std::optional<DType>>& dtypes) const;
  std::vector<InputArray> arrays_of(const nanobind::sequence& inputs) const;

  Program program_;
  DimValues dims_;
  bool follows_arrays_;  // the dtype of the arrays is that of the computation
  std::shared_ptr<DeviceHandle> device_;
  std::array<ForkAware<Compiled>, 2> compiled_;  // in f32 and f64
  DimValues last_dims_;
};

}  // namespace moxie::python
