#pragma once
// NumPy's array files: .npy (one array) and .npz (a zip archive of them).
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// Element types, little endian, under NumPy's names.
enum class NpyType : std::uint8_t { f4, f8, i4, i8, u1, b1, f2, i1, i2, u2, u4 };

/// The type of NumPy's kind (f, i, u or b) with so many bytes. Throws DataError if there is none.
NpyType npy_type(char kind, int bytes);

/// An array in C order, whatever the order in the file.
struct NpyArray {
  NpyType type = NpyType::f4;
  std::vector<std::size_t> shape;
  std::string bytes;
  bool operator==(const NpyArray&) const = default;

  std::size_t size() const;  // elements
  /// The elements, each converted to T: float or double.
  template <class T>
  std::vector<T> to() const;
};

/// An array of f4, f8 or i8 elements. Throws ShapeError if the shape does not hold as many values.
template <class T>
NpyArray make_npy_array(std::vector<std::size_t> shape, std::span<const T> values);

/// Throws DataError, naming `file`, unless the bytes are exactly one array.
NpyArray parse_npy(std::string_view bytes, const std::string& file);
std::string print_npy(const NpyArray& array);

using NpyArrays = std::map<std::string, NpyArray, std::less<>>;

/// The arrays of an .npz file by name (without `.npy`). Throws DataError, naming `file`.
NpyArrays parse_npz(std::string_view bytes, const std::string& file);
std::string print_npz(const NpyArrays& arrays, bool compress = true);

}  // namespace moxie
