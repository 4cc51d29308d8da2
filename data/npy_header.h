#pragma once
// The header of an .npy file: a Python dictionary with exactly the keys descr, fortran_order and shape.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::size_t> shape;
};

/// Throws DataError, naming `file`.
NpyHeader parse_npy_header(std::string_view text, const std::string& file);

}  // namespace moxie
