// The extension module moxie._core: what moxie's Python files are written on. Stubs: ../moxie/_core.pyi
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/jacobian.h"
#include "compiler/diff/tangents.h"
#include "compiler/program/batched.h"
#include "compiler/support/error.h"
#include "python/core/device.h"
#include "python/core/dump.h"
#include "python/core/errors.h"
#include "python/core/function.h"
#include "python/core/program.h"
#ifdef MOXIE_WITH_XLA
#include "python/core/xla_calls.h"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace moxie::python {
namespace {

using Dims = std::map<std::string, std::int64_t>;

DimValues values_of(const Dims& dims) { return {dims.begin(), dims.end()}; }
Dims plain(const DimValues& dims) { return {dims.begin(), dims.end()}; }

std::optional<DType> dtype_or_none(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const auto dtype = dtype_of_numpy(*name);
  if (dtype && is_stored_as_computed(*dtype)) return dtype;
  throw PythonError("DtypeError", "expected dtype float32 or float64, found " + *name);
}

nb::tuple info_tuple(const TensorInfo& info) {
  return nb::make_tuple(info.name, info.dtype, nb::tuple(nb::cast(info.shape)), info.domain);
}

nb::list info_list(const std::vector<TensorInfo>& infos) {
  nb::list list;
  for (const TensorInfo& info : infos) list.append(info_tuple(info));
  return list;
}

/// Extents of each axis as (dim, factor) pairs, the constant with the dim "".
nb::list extents_of(const Program& program) {
  nb::list outputs;
  for (const std::vector<Affine>& shape : output_shapes(program)) {
    nb::list axes;
    for (const Affine& extent : shape) {
      nb::list terms;
      if (extent.constant() != 0) terms.append(nb::make_tuple("", extent.constant()));
      for (const auto& [symbol, factor] : extent.terms()) terms.append(nb::make_tuple(print(Affine(symbol)), factor));
      axes.append(terms);
    }
    outputs.append(axes);
  }
  return outputs;
}

nb::list dims_of(const Program& program) {
  nb::list list;
  for (const DimDecl& dim : program.dims) list.append(nb::make_tuple(dim.name, dim.value, dim.dynamic));
  return list;
}

void bind_program(nb::module_& module) {
  nb::class_<Program>(module, "Program", "A formula as the compiler has it; never changes.")
      .def_prop_ro("name", [](const Program& self) { return self.name; })
      .def_prop_ro(
          "text", [](const Program& self) { return print(self); }, "The formula as .mox text.")
      .def_prop_ro("inputs", [](const Program& self) { return info_list(inputs_of(self)); })
      .def_prop_ro("outputs", [](const Program& self) { return info_list(outputs_of(self)); })
      .def_prop_ro("output_extents", extents_of,
                   "Per output and axis: (dim, factor) pairs; the constant has the dim \"\".")
      .def_prop_ro("dims", dims_of, "(name, value or None, whether it is dynamic) of every dim.")
      .def_prop_ro("is_random", is_random)
      .def("with_unit_input", with_unit_input, "input"_a, "The formula with ones in place of an input.")
      .def("batched", batched, "inputs"_a, "The formula for many samples: inputs have one more axis, the first.")
      .def("differentiate", differentiate, "outputs"_a, "wrt"_a, "keep_outputs"_a,
           "Inputs cot.y and outputs grad.x beside those of the formula.")
      .def(
          "tangents",
          [](const Program& program, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
             bool keep_outputs) { return tangents(program, outputs, wrt, keep_outputs); },
          "outputs"_a, "wrt"_a, "keep_outputs"_a, "Inputs tan.x and outputs tan.y beside those of the formula.")
      .def("hessian_products", hessian_products, "outputs"_a, "wrt"_a, "keep_outputs"_a,
           "Inputs cot.y and tan.x and outputs grad.x and hvp.x beside those of the formula.")
      .def("jacobian", jacobian_of, "outputs"_a, "wrt"_a, "mode"_a, "dims"_a,
           "Outputs jac.y.x beside those of the formula; mode is auto, forward or reverse.");
  module.def("parse", parse_formula, "text"_a, "file"_a, "name"_a);
  module.def("read_formula", read_formula, "path"_a, "name"_a, "folders"_a);
  module.def("catalogue_formula", catalogue_formula, "name"_a);
  module.def("catalogue_names", catalogue_names);
}

void bind_device(nb::module_& module) {
  nb::class_<DeviceHandle>(module, "Device", "Where formulas run; opened when the first of them does.")
      .def(
          "__init__",
          [](DeviceHandle* self, const std::string& name, int threads, const std::string& cache, bool tune) {
            new (self) DeviceHandle(name, {.threads = threads, .cache_directory = cache, .tune = tune});
          },
          "name"_a, "threads"_a, "cache"_a, "tune"_a)
      .def_prop_ro("name", &DeviceHandle::name)
      .def_prop_ro("threads", &DeviceHandle::threads)
      .def("open", [](DeviceHandle& self) { self.open(); }, "Opens it now.");
}

void bind_function(nb::module_& module) {
  nb::class_<PythonFunction>(module, "Function", "A Program that is called with arrays.")
      .def(
          "__init__",
          [](PythonFunction* self, const Program& program, const Dims& dims, const std::optional<std::string>& dtype,
             std::shared_ptr<DeviceHandle> device) {
            new (self) PythonFunction(program, values_of(dims), dtype_or_none(dtype), std::move(device));
          },
          "program"_a, "dims"_a, "dtype"_a.none(), "device"_a)
      .def("call", &PythonFunction::call, "inputs"_a, "seed"_a, "step"_a)
      .def("output_shapes", &PythonFunction::output_shapes, "inputs"_a)
      .def("output_dtypes", &PythonFunction::output_dtypes, "inputs"_a)
      .def_prop_ro("last_dims", [](const PythonFunction& self) { return plain(self.last_dims()); })
      .def_prop_ro("kept", &PythonFunction::kept);
}

}  // namespace
}  // namespace moxie::python

NB_MODULE(_core, module) {
  using namespace moxie::python;
  nb::set_leak_warnings(false);  // what other modules hold at exit is no leak
  (void)fork_generation();
  translate_errors();
  bind_program(module);
  bind_device(module);
  bind_function(module);
#ifdef MOXIE_WITH_XLA
  bind_xla(module);
#endif
  module.def(
      "dump",
      [](const moxie::Program& source, const moxie::Program& task, const std::map<std::string, std::int64_t>& dims,
         std::vector<std::string> stages, std::string kernels, std::string device, bool page) {
        return dump_of(source, task, {dims.begin(), dims.end()},
                       {std::move(stages), std::move(kernels), std::move(device), page});
      },
      "source"_a, "task"_a, "dims"_a, "stages"_a, "kernels"_a, "device"_a, "page"_a,
      nb::call_guard<nb::gil_scoped_release>());
}
