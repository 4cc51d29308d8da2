#include "python/core/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "compiler/arithmetic/exact_integer.h"
#include "python/core/errors.h"
#include "runtime/elements.h"
#include "runtime/host_tensor.h"

namespace nb = nanobind;

namespace moxie::python {
namespace {

/// The dtype that a format of the buffer protocol means on this machine.
std::optional<DType> dtype_of(const char* format, Py_ssize_t bytes) {
  std::string_view text(format == nullptr ? "B" : format);
  if (!text.empty() && (text.front() == '=' || text.front() == '@')) text.remove_prefix(1);
  const auto row = std::ranges::find_if(dtypes(), [&](const DTypeInfo& info) {
    return text.size() == 1 && bytes == info.bytes &&
           std::string_view(info.buffer_formats).find(text.front()) != std::string_view::npos;
  });
  return row == dtypes().end() ? std::nullopt : std::optional(row->dtype);
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
  const bool is_exact = !is_stored_as_computed(declared.dtype);
  const std::string remedy =
      is_swapped ? "give it this machine's byte order: x.astype(x.dtype.newbyteorder('='))"
                 : fmt::format("convert it: x.astype(numpy.{})", numpy_name(is_exact ? declared.dtype : DType::f32));
  throw unexpected("DtypeError", declared.name, is_exact ? numpy_name(declared.dtype) : "float32 or float64",
                   dtype_text(value, view), remedy);
}

/// Throws PythonError unless the number is an element of the input.
void check_integer(const std::string& name, DType dtype, double number) {
  constexpr auto kExact = static_cast<double>(kMaxExactInteger);
  const DTypeInfo& info = info_of(dtype);
  const double low = std::max(info.low, -kExact), high = std::min(info.high, kExact);
  if (std::trunc(number) == number && number >= low && number <= high) return;
  const std::string expected =
      dtype == DType::i32 ? "a 32-bit integer" : fmt::format("an integer from {:.0f} to {:.0f}", low, high);
  throw unexpected("InputError", name, expected, fmt::format("{}", number));
}

/// numpy's dtype bfloat16, which the package ml_dtypes adds, where that is installed. Arrays of it give no access to
/// their elements; those of numpy.uint16 stand for them.
const std::optional<nb::object>& bfloat16() {
  static const auto* instance = [] {
    try {
      return new std::optional<nb::object>(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    } catch (const nb::python_error&) {
      return new std::optional<nb::object>();
    }
  }();
  return *instance;
}

/// numpy.empty, and the dtypes that it takes; looked up once, never given back.
struct Numpy {
  PyObject* empty;
  std::vector<PyObject*> dtypes;
};

const Numpy& numpy() {
  static const Numpy instance = [] {
    const nb::module_ module = nb::module_::import_("numpy");
    Numpy result{nb::object(module.attr("empty")).release().ptr(), {}};
    for (const DTypeInfo& row : dtypes())
      result.dtypes.push_back(module.attr("dtype")(row.dtype == DType::bf16 ? "uint16" : row.numpy).release().ptr());
    return result;
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

const char* numpy_name(DType dtype) { return info_of(dtype).numpy; }

std::optional<DType> dtype_of_numpy(std::string_view name) {
  const auto row =
      std::ranges::find(dtypes(), name, [](const DTypeInfo& info) { return std::string_view(info.numpy); });
  return row == dtypes().end() ? std::nullopt : std::optional(row->dtype);
}

std::string text_of_shape(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

InputArray::InputArray(const InputDecl& declared, nb::handle given) {
  nb::object value = nb::borrow(given);
  if (declared.dtype == DType::bf16 && nb::hasattr(value, "dtype") && text_of(value.attr("dtype")) == "bfloat16")
    value = value.attr("view")("uint16");
  PyObject* object = value.ptr();
  if (PyFloat_Check(object) || PyLong_Check(object)) {
    number_ = PyFloat_AsDouble(object);
    if (number_ == -1 && PyErr_Occurred()) throw nb::python_error();
    if (holds_integers(declared.dtype)) check_integer(declared.name, declared.dtype, number_);
    return;
  }
  if (!PyObject_CheckBuffer(object))
    throw unexpected("InputError", declared.name, "an array of numpy, torch or jax, or a number",
                     text_of(value.type().attr("__name__")));
  if (PyObject_GetBuffer(object, &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    nb::python_error error;
    throw PythonError("InputError", fmt::format("input {}: the array gives no access to its elements: {}",
                                                declared.name, error.what()));
  }
  has_view_ = true;
  dtype_ = dtype_of(view_.format, view_.itemsize);
  name_ = declared.name;
  if (dtype_ && holds_integers(*dtype_) && holds_integers(declared.dtype)) {
    stored_ = *dtype_;
    dtype_ = declared.dtype;
    is_converted_ = stored_ != declared.dtype;
  }
  const auto is_exact = [](DType dtype) { return !is_stored_as_computed(dtype); };
  if (!dtype_ || ((is_exact(*dtype_) || is_exact(declared.dtype)) && *dtype_ != declared.dtype)) {
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
      stored_(other.stored_),
      is_converted_(other.is_converted_),
      name_(std::move(other.name_)),
      shape_(std::move(other.shape_)),
      number_(other.number_),
      element_(other.element_),
      copy_(std::move(other.copy_)),
      address_(other.address_) {}

void InputArray::prepare(DType dtype) {
  if (!has_view_) {
    store_elements(dtype, std::span(&number_, 1), element_.data());
    address_ = element_.data();
    return;
  }
  if (is_converted_) return convert(dtype);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view_.buf) % size_of(dtype) == 0;
  address_ = view_.buf;
  if (is_aligned && PyBuffer_IsContiguous(&view_, 'C') != 0) return;
  copy_.resize(static_cast<std::size_t>(view_.len));
  if (PyBuffer_ToContiguous(copy_.data(), &view_, view_.len, 'C') != 0) throw nb::python_error();
  address_ = copy_.data();
}

void InputArray::convert(DType dtype) {
  std::vector<std::byte> found(static_cast<std::size_t>(view_.len));
  if (PyBuffer_ToContiguous(found.data(), &view_, view_.len, 'C') != 0) throw nb::python_error();
  std::vector<double> numbers(found.size() / size_of(stored_));
  load_elements(stored_, found.data(), numbers);
  for (const double number : numbers) check_integer(name_, dtype, number);
  copy_.resize(numbers.size() * size_of(dtype));
  store_elements(dtype, numbers, copy_.data());
  address_ = copy_.data();
}

OutputArray make_array(DType dtype, const std::vector<std::int64_t>& shape) {
  const Numpy& np = numpy();
  const nb::object extents = tuple_of(shape);
  PyObject* arguments[] = {extents.ptr(), np.dtypes.at(static_cast<std::size_t>(dtype))};
  nb::object array = nb::steal(PyObject_Vectorcall(np.empty, arguments, 2, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_CONTIG) != 0) throw nb::python_error();
  void* address = view.buf;
  PyBuffer_Release(&view);
  if (dtype == DType::bf16 && bfloat16()) array = array.attr("view")(*bfloat16());
  return {std::move(array), address};
}

}  // namespace moxie::python
