#include "python/core/function.h"

#include <fmt/format.h>

#include "compiler/program/program.h"
#include "python/core/errors.h"

namespace nb = nanobind;

namespace moxie::python {

PythonFunction::PythonFunction(const Program& program, DimValues dims, std::optional<DType> dtype,
                               std::shared_ptr<DeviceHandle> device)
    : program_(dtype ? with_dtype(program, *dtype) : program),
      dims_(std::move(dims)),
      follows_arrays_(!dtype && program.default_dtype == DType::f32),
      device_(std::move(device)) {
  verify(program_);
}

DType PythonFunction::dtype_for(const std::vector<std::optional<DType>>& dtypes) const {
  std::optional<DType> chosen;
  std::size_t chooser = 0;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const InputDecl& input = program_.inputs[i];
    if (!dtypes[i]) continue;
    const bool is_free = follows_arrays_ && input.dtype == program_.default_dtype;
    if (*dtypes[i] != input.dtype && (!is_free || !is_stored_as_computed(*dtypes[i])))
      throw unexpected("DtypeError", input.name, numpy_name(input.dtype), numpy_name(*dtypes[i]),
                       fmt::format("convert it: x.astype(numpy.{})", numpy_name(input.dtype)));
    if (!is_free) continue;
    if (chosen && *chosen != *dtypes[i])
      throw PythonError(
          "DtypeError",
          fmt::format("input {} is {}, but input {} is {}; give all arrays one dtype, which the formula is then "
                      "computed in",
                      input.name, numpy_name(*dtypes[i]), program_.inputs[chooser].name, numpy_name(*chosen)));
    if (!chosen) chooser = i;
    chosen = dtypes[i];
  }
  // Numbers of Python alone are double.
  return chosen.value_or(follows_arrays_ ? DType::f64 : program_.default_dtype);
}

PythonFunction::Compiled PythonFunction::compiled(DType dtype) {
  ForkAware<Compiled>& slot = compiled_[dtype == DType::f32 ? 0 : 1];
  if (const Compiled* known = slot.get()) return *known;
  Program program = follows_arrays_ ? with_dtype(program_, dtype) : program_;
  return slot.set(std::make_shared<CompiledFunction>(std::move(program), dims_, device_->open()));
}

std::vector<InputArray> PythonFunction::arrays_of(const nb::sequence& inputs) const {
  const std::size_t count = nb::len(inputs);
  if (count != program_.inputs.size())
    throw PythonError("InputError", fmt::format("expected {} inputs, found {}", program_.inputs.size(), count));
  std::vector<InputArray> arrays;
  arrays.reserve(count);
  for (std::size_t i = 0; i < count; ++i) arrays.emplace_back(program_.inputs[i], nb::object(inputs[i]));
  return arrays;
}

nb::object PythonFunction::call(const nb::sequence& inputs, std::uint64_t seed, std::uint64_t step) {
  std::vector<InputArray> arrays = arrays_of(inputs);
  std::vector<std::optional<DType>> dtypes;
  TensorShapes shapes;
  for (const InputArray& array : arrays) {
    dtypes.push_back(array.dtype());
    shapes.push_back(array.shape());
  }
  const Compiled function = compiled(dtype_for(dtypes));
  const Program& program = function->program();
  std::vector<const void*> addresses;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    arrays[i].prepare(program.inputs[i].dtype);
    addresses.push_back(arrays[i].address());
  }
  const std::shared_ptr<BoundFunction> bound = [&] {
    const nb::gil_scoped_release released;
    return function->bind(shapes);
  }();
  if (last_dims_ != bound->dims()) last_dims_ = bound->dims();
  nb::list results;
  std::vector<void*> places;
  for (std::size_t i = 0; i < function->outputs().size(); ++i) {
    OutputArray output = make_array(program.dtype_of(function->outputs()[i]), bound->output_shapes()[i]);
    places.push_back(output.address);
    results.append(std::move(output.array));
  }
  {
    const nb::gil_scoped_release released;
    bound->run(addresses, places, seed, step);
  }
  return results;
}

TensorShapes PythonFunction::output_shapes(const TensorShapes& inputs) {
  return compiled(program_.default_dtype)->output_shapes(inputs);
}

std::shared_ptr<CompiledFunction> PythonFunction::compiled_for(const std::vector<std::string>& dtypes) {
  std::vector<std::optional<DType>> found;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    found.push_back(dtype_of_numpy(dtypes[i]));
    if (!found.back())
      throw unexpected("DtypeError", program_.inputs.at(i).name, "float32 or float64", dtypes[i], "convert it");
  }
  return compiled(dtype_for(found));
}

std::vector<std::string> PythonFunction::output_dtypes(const std::vector<std::string>& inputs) {
  const Compiled function = compiled_for(inputs);
  std::vector<std::string> results;
  for (const std::string& name : function->outputs())
    results.emplace_back(numpy_name(function->program().dtype_of(name)));
  return results;
}

std::size_t PythonFunction::kept() {
  std::size_t count = 0;
  for (auto& slot : compiled_) {
    if (const Compiled* known = slot.get()) count += (*known)->kept();
  }
  return count;
}

}  // namespace moxie::python
