#include "data/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "compiler/arithmetic/half.h"
#include "compiler/support/error.h"
#include "data/archive.h"
#include "data/compression.h"
#include "data/file.h"
#include "data/npy_header.h"

namespace moxie {
static_assert(std::endian::native == std::endian::little,
              "arrays are copied to and from little-endian files as they are");
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kMemberSuffix = ".npy";
constexpr std::size_t kAlignment = 64;  // the data of a file that we write begins at a multiple of it, as NumPy's does

struct TypeInfo {
  std::string_view descr;
  std::size_t size;
};
constexpr std::array<TypeInfo, 11> kTypes{{{"<f4", 4},
                                           {"<f8", 8},
                                           {"<i4", 4},
                                           {"<i8", 8},
                                           {"|u1", 1},
                                           {"|b1", 1},
                                           {"<f2", 2},
                                           {"|i1", 1},
                                           {"<i2", 2},
                                           {"<u2", 2},
                                           {"<u4", 4}}};

const TypeInfo& info(NpyType type) { return kTypes[static_cast<std::size_t>(type)]; }

NpyType type_of(const NpyHeader& header, const std::string& file) {
  std::string known;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].descr == header.descr) return static_cast<NpyType>(i);
    known += fmt::format(" {}", kTypes[i].descr);
  }
  throw DataError(fmt::format("{}: elements of type '{}' are not read; known:{}", file, header.descr, known));
}

/// The number of elements of a shape if they fit in `limit`, else limit + 1.
std::size_t bounded_count(const std::vector<std::size_t>& shape, std::size_t limit) {
  std::size_t count = 1;
  bool fits = true;
  for (const std::size_t extent : shape) {
    if (extent == 0) return 0;
    fits = fits && count <= limit / extent;
    if (fits) count *= extent;
  }
  return fits ? count : limit + 1;
}

/// Fortran order (first axis fastest) to C order (last axis fastest).
std::string to_c_order(std::string_view bytes, const std::vector<std::size_t>& shape, std::size_t element) {
  std::vector<std::size_t> stride(shape.size(), element), at(shape.size(), 0);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t offset = 0; out.size() < bytes.size();) {
    out.append(bytes.substr(offset, element));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += stride[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= stride[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return out;
}

template <class From, class To>
void convert(std::string_view bytes, std::vector<To>& out, auto value_of) {
  for (std::size_t offset = 0; offset < bytes.size(); offset += sizeof(From)) {
    From stored;
    std::memcpy(&stored, bytes.data() + offset, sizeof(From));
    out.push_back(static_cast<To>(value_of(stored)));
  }
}
template <class From, class To>
void convert(std::string_view bytes, std::vector<To>& out) {
  convert<From>(bytes, out, [](From stored) { return stored; });
}

template <class T>
constexpr NpyType type_for();
template <>
constexpr NpyType type_for<float>() {
  return NpyType::f4;
}
template <>
constexpr NpyType type_for<double>() {
  return NpyType::f8;
}
template <>
constexpr NpyType type_for<std::int64_t>() {
  return NpyType::i8;
}

}  // namespace

NpyType npy_type(char kind, int bytes) {
  const std::string name = fmt::format("{}{}", kind, bytes);
  const auto row = std::ranges::find(kTypes, name, [](const TypeInfo& type) { return type.descr.substr(1); });
  if (row == kTypes.end()) throw DataError(fmt::format("NumPy's arrays have no elements of type '{}'", name));
  return static_cast<NpyType>(row - kTypes.begin());
}

std::size_t NpyArray::size() const { return bytes.size() / info(type).size; }

template <class T>
std::vector<T> NpyArray::to() const {
  std::vector<T> out;
  out.reserve(size());
  switch (type) {
    case NpyType::f4:
      convert<float>(bytes, out);
      break;
    case NpyType::f8:
      convert<double>(bytes, out);
      break;
    case NpyType::i4:
      convert<std::int32_t>(bytes, out);
      break;
    case NpyType::i8:
      convert<std::int64_t>(bytes, out);
      break;
    case NpyType::u1:
    case NpyType::b1:
      convert<std::uint8_t>(bytes, out);
      break;
    case NpyType::f2:
      convert<std::uint16_t>(bytes, out, f16_value);
      break;
    case NpyType::i1:
      convert<std::int8_t>(bytes, out);
      break;
    case NpyType::i2:
      convert<std::int16_t>(bytes, out);
      break;
    case NpyType::u2:
      convert<std::uint16_t>(bytes, out);
      break;
    case NpyType::u4:
      convert<std::uint32_t>(bytes, out);
      break;
  }
  return out;
}
template std::vector<float> NpyArray::to() const;
template std::vector<double> NpyArray::to() const;

template <class T>
NpyArray make_npy_array(std::vector<std::size_t> shape, std::span<const T> values) {
  if (bounded_count(shape, values.size()) != values.size())
    throw ShapeError(
        fmt::format("an array of shape ({}) cannot hold {} values", fmt::join(shape, ", "), values.size()));
  return {type_for<T>(), std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes())};
}
template NpyArray make_npy_array(std::vector<std::size_t>, std::span<const float>);
template NpyArray make_npy_array(std::vector<std::size_t>, std::span<const double>);
template NpyArray make_npy_array(std::vector<std::size_t>, std::span<const std::int64_t>);

NpyArray parse_npy(std::string_view bytes, const std::string& file) {
  constexpr std::size_t kVersionEnd = 8;
  if (!bytes.starts_with(kMagic) || bytes.size() < kVersionEnd)
    throw DataError(fmt::format("{}: is not an .npy file: it must begin with \\x93NUMPY and a version", file));
  const int version = static_cast<std::uint8_t>(bytes[kMagic.size()]);
  if (version < 1 || version > 3)
    throw DataError(fmt::format("{}: .npy version {} is not read; known: 1 2 3", file, version));
  const std::size_t begin = kVersionEnd + (version == 1 ? 2 : 4);
  if (bytes.size() < begin) throw DataError(fmt::format("{}: is truncated within the header", file));
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > kVersionEnd;) length = length << 8 | static_cast<std::uint8_t>(bytes[i]);
  if (bytes.size() - begin < length) throw DataError(fmt::format("{}: is truncated within the header", file));

  const NpyHeader header = parse_npy_header(bytes.substr(begin, length), file);
  const NpyType type = type_of(header, file);
  const std::string_view data = bytes.substr(begin + length);
  const std::size_t count = data.size() / info(type).size;
  if (bounded_count(header.shape, count) != count || count * info(type).size != data.size())
    throw DataError(fmt::format("{}: shape ({}) of '{}' does not fit the {} bytes of data", file,
                                fmt::join(header.shape, ", "), header.descr, data.size()));
  return {type, header.shape,
          header.fortran_order ? to_c_order(data, header.shape, info(type).size) : std::string(data)};
}

std::string print_npy(const NpyArray& array) {
  const std::string shape = fmt::format("({}{})", fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", info(array.type).descr, shape);
  const std::size_t prefix = kMagic.size() + 4, length = prefix + header.size() + 1;
  header.append((kAlignment - length % kAlignment) % kAlignment, ' ').push_back('\n');
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return out + header + array.bytes;
}

NpyArrays parse_npz(std::string_view bytes, const std::string& file) {
  NpyArrays arrays;
  for (const ArchiveMember& member : read_zip(bytes, file, decompressed_limit(bytes.size(), kMaxFileBytes))) {
    if (!std::string_view(member.name).ends_with(kMemberSuffix))
      throw DataError(fmt::format("{}: member '{}' is not an .npy file", file, member.name));
    const std::string name = member.name.substr(0, member.name.size() - kMemberSuffix.size());
    if (!arrays.emplace(name, parse_npy(member.content, file + ":" + member.name)).second)
      throw DataError(fmt::format("{}: holds array '{}' twice", file, name));
  }
  return arrays;
}

std::string print_npz(const NpyArrays& arrays, bool compress) {
  std::vector<ArchiveMember> members;
  for (const auto& [name, array] : arrays) members.push_back({name + std::string(kMemberSuffix), print_npy(array)});
  return write_zip(members, compress);
}

}  // namespace moxie
