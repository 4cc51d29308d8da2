#include "python/core/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <cstdint>

#include "python/core/errors.h"
#include "runtime/host_tensor.h"

namespace nb = nanobind;

namespace moxie::python {
namespace {

/// The dtype that a format of the buffer protocol means on this machine.
std::optional<DType> dtype_of(const char* format) {
  if (format == nullptr) return std::nullopt;
  std::string_view text(format);
  if (!text.empty() && (text.front() == '=' || text.front() == '@')) text.remove_prefix(1);
  if (text == "f") return DType::f32;
  if (text == "d") return DType::f64;
  if (text == "i") return DType::i32;
  return std::nullopt;
}

/// str(value)
std::string text_of(nb::handle value) {
  const nb::object text = nb::steal(PyObject_Str(value.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

/// What the array calls its dtype.
std::string dtype_text(nb::handle value, const Py_buffer& view) {
  if (nb::hasattr(value, "dtype")) return text_of(value.attr("dtype"));
  return fmt::format("elements of format '{}'", view.format == nullptr ? "B" : view.format);
}

[[noreturn]] void refuse_dtype(const InputDecl& declared, nb::handle value, const Py_buffer& view) {
  const std::string_view format = view.format == nullptr ? "B" : view.format;
  const bool is_swapped = !format.empty() && (format.front() == '>' || format.front() == '!');
  const bool is_integer = declared.dtype == DType::i32;
  const char* remedy = is_swapped   ? "give it this machine's byte order: x.astype(x.dtype.newbyteorder('='))"
                       : is_integer ? "convert it: x.astype(numpy.int32)"
                                    : "convert it: x.astype(numpy.float32)";
  throw PythonError("DtypeError",
                    fmt::format("input {}: expected {}, found {}; {}", declared.name,
                                is_integer ? "int32" : "float32 or float64", dtype_text(value, view), remedy));
}

/// numpy.empty, and what it takes; looked up once, never given back.
struct Numpy {
  PyObject *empty, *float32, *float64, *int32;
};

const Numpy& numpy() {
  static const Numpy instance = [] {
    const nb::module_ module = nb::module_::import_("numpy");
    const auto dtype = [&](const char* name) { return module.attr("dtype")(name).release().ptr(); };
    return Numpy{nb::object(module.attr("empty")).release().ptr(), dtype("float32"), dtype("float64"), dtype("int32")};
  }();
  return instance;
}

nb::object tuple_of(const std::vector<std::int64_t>& shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PyObject* extent = PyLong_FromLongLong(shape[i]);
    if (extent == nullptr) throw nb::python_error();
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), extent);
  }
  return tuple;
}

}  // namespace

const char* numpy_name(DType dtype) {
  static constexpr const char* names[] = {"float32", "float64", "int32"};
  return names[static_cast<int>(dtype)];
}

std::optional<DType> dtype_named(std::string_view name) {
  if (name == "float32") return DType::f32;
  if (name == "float64") return DType::f64;
  if (name == "int32") return DType::i32;
  return std::nullopt;
}

std::string text_of_shape(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

InputArray::InputArray(const InputDecl& declared, nb::handle value) {
  PyObject* object = value.ptr();
  if (PyFloat_Check(object) || PyLong_Check(object)) {
    number_ = PyFloat_AsDouble(object);
    if (number_ == -1 && PyErr_Occurred()) throw nb::python_error();
    if (declared.dtype == DType::i32 && as_integer(number_) != number_)
      throw PythonError("InputError",
                        fmt::format("input {}: expected a 32-bit integer, found {}", declared.name, number_));
    return;
  }
  if (!PyObject_CheckBuffer(object))
    throw PythonError("InputError",
                      fmt::format("input {}: expected an array of numpy, torch or jax, or a number, found {}",
                                  declared.name, text_of(value.type().attr("__name__"))));
  if (PyObject_GetBuffer(object, &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    nb::python_error error;
    throw PythonError("InputError", fmt::format("input {}: the array gives no access to its elements: {}",
                                                declared.name, error.what()));
  }
  has_view_ = true;
  dtype_ = dtype_of(view_.format);
  if (!dtype_ || (*dtype_ == DType::i32) != (declared.dtype == DType::i32)) {
    const Py_buffer view = view_;
    try {
      refuse_dtype(declared, value, view);
    } catch (...) {
      PyBuffer_Release(&view_);  // a constructor that throws has no destructor
      throw;
    }
  }
  shape_.assign(view_.shape, view_.shape + view_.ndim);
}

InputArray::~InputArray() {
  if (has_view_) PyBuffer_Release(&view_);
}

InputArray::InputArray(InputArray&& other) noexcept
    : view_(other.view_),
      has_view_(std::exchange(other.has_view_, false)),
      dtype_(other.dtype_),
      shape_(std::move(other.shape_)),
      number_(other.number_),
      single_(other.single_),
      integer_(other.integer_),
      copy_(std::move(other.copy_)),
      address_(other.address_) {}

void InputArray::prepare(DType dtype) {
  if (!has_view_) {
    single_ = static_cast<float>(number_);
    integer_ = static_cast<std::int32_t>(dtype == DType::i32 ? number_ : 0);
    address_ = dtype == DType::f32   ? static_cast<const void*>(&single_)
               : dtype == DType::i32 ? static_cast<const void*>(&integer_)
                                     : &number_;
    return;
  }
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view_.buf) % size_of(dtype) == 0;
  address_ = view_.buf;
  if (is_aligned && PyBuffer_IsContiguous(&view_, 'C') != 0) return;
  copy_.resize(static_cast<std::size_t>(view_.len));
  if (PyBuffer_ToContiguous(copy_.data(), &view_, view_.len, 'C') != 0) throw nb::python_error();
  address_ = copy_.data();
}

OutputArray make_array(DType dtype, const std::vector<std::int64_t>& shape) {
  const Numpy& np = numpy();
  const nb::object extents = tuple_of(shape);
  PyObject* arguments[] = {extents.ptr(), dtype == DType::f32   ? np.float32
                                          : dtype == DType::i32 ? np.int32
                                                                : np.float64};
  nb::object array = nb::steal(PyObject_Vectorcall(np.empty, arguments, 2, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_CONTIG) != 0) throw nb::python_error();
  void* address = view.buf;
  PyBuffer_Release(&view);
  return {std::move(array), address};
}

}  // namespace moxie::python
