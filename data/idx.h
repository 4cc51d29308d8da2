#pragma once
// IDX, the array format of the MNIST files: big-endian header, elements in row-major order.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// An array of bytes, the only element type that the MNIST family uses.
struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
  bool operator==(const IdxArray&) const = default;
};

/// Throws DataError, naming `file`, unless the bytes are exactly one IDX array of unsigned bytes.
IdxArray parse_idx(std::string_view bytes, const std::string& file);

}  // namespace moxie
