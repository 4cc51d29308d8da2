#pragma once
// Arrays of Python as memory that kernels read and write: the buffer protocol on the way in, numpy on the way out.
#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie::python {

/// An argument of a call, held for as long as kernels may read it. Needs the GIL, but for address() and shape().
class InputArray {
 public:
  /// Throws PythonError (InputError, DtypeError) for an object that is neither an array of f32 or f64 nor a number; for
  /// an input of integers, one that is neither an array of integers nor a number.
  InputArray(const InputDecl& declared, nanobind::handle value);
  ~InputArray();
  InputArray(InputArray&&) noexcept;
  InputArray(const InputArray&) = delete;
  InputArray& operator=(const InputArray&) = delete;

  /// The array's dtype; that of the input for integers. A number of Python has none: it takes any.
  std::optional<DType> dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Makes the values lie in memory row by row, as elements of `dtype`; copies only where they do not yet. Throws
  /// PythonError (InputError) for an integer that `dtype` does not have.
  void prepare(DType dtype);
  const void* address() const { return address_; }

 private:
  void convert(DType dtype);

  Py_buffer view_{};
  bool has_view_ = false;
  std::optional<DType> dtype_;
  DType stored_ = DType::f32;  // what an array of integers holds
  bool is_converted_ = false;  // to those of the input, where they fit
  std::string name_;           // of the input
  std::vector<std::int64_t> shape_;
  double number_ = 0;                              // of Python
  alignas(8) std::array<std::byte, 8> element_{};  // the same
  std::vector<std::byte> copy_;                    // of an array with another layout
  const void* address_ = nullptr;
};

/// A new numpy array and its memory.
struct OutputArray {
  nanobind::object array;
  void* address;
};
OutputArray make_array(DType dtype, const std::vector<std::int64_t>& shape);

/// "float32"
const char* numpy_name(DType dtype);
/// The dtype that numpy calls so; nothing for others.
std::optional<DType> dtype_of_numpy(std::string_view name);
/// "[3,4]"
std::string text_of_shape(const std::vector<std::int64_t>& shape);

}  // namespace moxie::python
