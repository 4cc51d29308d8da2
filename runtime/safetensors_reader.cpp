#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/support/error.h"
#include "runtime/safetensors.h"

namespace moxie {
namespace {

using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::size_t kSizeBytes = 8;
constexpr std::uint64_t kHeaderLimit = 100'000'000;  // of the format's own reference reader

/// Elements as they lie in the file, but of a bool every byte that is not 0 is 1.
std::vector<std::byte> elements_of(DType dtype, Bytes data) {
  std::vector<std::byte> elements(data.begin(), data.end());
  if (dtype == DType::boolean)
    std::ranges::transform(elements, elements.begin(), [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return elements;
}

/// One entry of the header, checked on its own.
struct Entry {
  std::string name;
  const DTypeInfo* type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  // in the data
};

class Reader {
 public:
  Reader(Bytes bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  TensorFile read() {
    const Json header = parse_header();
    TensorFile result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__")
        result.metadata = metadata(value);
      else
        entries.push_back(entry(name, value));
    }
    verify_disjoint(entries);
    for (const Entry& e : entries)
      result.tensors[e.name] = {e.type->dtype, e.shape,
                                elements_of(e.type->dtype, data_.subspan(e.begin, e.end - e.begin))};
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(fmt::format("{}: {}; write the file again", file_, problem));
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& problem) const {
    fail(fmt::format("tensor \"{}\": {}", tensor, problem));
  }

  Json parse_header() {
    if (bytes_.size() < kSizeBytes) fail(fmt::format("{} bytes are too few for a safetensors file", bytes_.size()));
    std::uint64_t size;
    std::memcpy(&size, bytes_.data(), kSizeBytes);
    const Bytes rest = bytes_.subspan(kSizeBytes);
    if (size > kHeaderLimit) fail(fmt::format("the header has {} bytes; at most {} are allowed", size, kHeaderLimit));
    if (size > rest.size()) fail(fmt::format("the header has {} bytes but only {} follow", size, rest.size()));
    data_ = rest.subspan(size);
    const auto* text = reinterpret_cast<const char*>(rest.data());
    return parse_json(std::string_view(text, size));
  }

  Json parse_json(std::string_view text) const {
    std::set<std::string> names;
    // The JSON library keeps the last of several equal names and goes as deep as the text does.
    const auto guard = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > 3) fail("the header is nested too deeply");
      if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
        fail(parsed.get<std::string>(), "the header names it twice");
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, guard);
    } catch (const Json::exception& error) {
      fail(fmt::format("the header is not JSON: {}", error.what()));
    }
    if (!header.is_object()) fail("the header is not a JSON object");
    return header;
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    if (!value.is_object()) fail("__metadata__ is not a map of texts");
    std::map<std::string, std::string> result;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(fmt::format("__metadata__ \"{}\" is not a text", key));
      result[key] = text.get<std::string>();
    }
    return result;
  }

  const Json& field(const std::string& tensor, const Json& value, const char* key) const {
    if (!value.is_object() || !value.contains(key)) fail(tensor, fmt::format("{} is missing", key));
    return value[key];
  }

  std::vector<std::uint64_t> whole_numbers(const std::string& tensor, const Json& value, const char* key) const {
    const Json& list = field(tensor, value, key);
    const auto whole = [](const Json& number) { return number.is_number_unsigned(); };
    if (!list.is_array() || !std::ranges::all_of(list, whole))
      fail(tensor, fmt::format("{} is not a list of whole numbers", key));
    return list.get<std::vector<std::uint64_t>>();
  }

  const DTypeInfo& stored_type(const std::string& tensor, const Json& value) const {
    const Json& dtype = field(tensor, value, "dtype");
    const auto found = std::ranges::find_if(dtypes(), [&](const DTypeInfo& type) { return dtype == type.safetensors; });
    if (found != dtypes().end()) return *found;
    std::vector<std::string_view> known;
    for (const DTypeInfo& type : dtypes()) known.push_back(type.safetensors);
    fail(tensor, fmt::format("dtype {} is not one of {}", dtype.dump(-1, ' ', false, Json::error_handler_t::replace),
                             fmt::join(known, ", ")));
  }

  Entry entry(const std::string& name, const Json& value) const {
    const DTypeInfo& type = stored_type(name, value);
    const auto shape = whole_numbers(name, value, "shape"), offsets = whole_numbers(name, value, "data_offsets");
    if (offsets.size() != 2) fail(name, fmt::format("data_offsets holds {} numbers instead of 2", offsets.size()));
    const std::uint64_t begin = offsets[0], end = offsets[1];
    if (begin > end || end > data_.size())
      fail(name, fmt::format("data_offsets [{}, {}] lie outside the data of {} bytes", begin, end, data_.size()));
    auto bytes = static_cast<std::uint64_t>(type.bytes);
    for (const std::uint64_t extent : shape)
      if (__builtin_mul_overflow(bytes, extent, &bytes) || extent > INT64_MAX)
        fail(name, fmt::format("the shape [{}] is too large", fmt::join(shape, ", ")));
    if (bytes != end - begin)
      fail(name, fmt::format("data_offsets [{}, {}] hold {} bytes, but {} of shape [{}] needs {}", begin, end,
                             end - begin, type.safetensors, fmt::join(shape, ", "), bytes));
    return {name, &type, {shape.begin(), shape.end()}, begin, end};
  }

  void verify_disjoint(std::vector<Entry> entries) const {
    std::erase_if(entries, [](const Entry& e) { return e.begin == e.end; });
    std::ranges::sort(entries, {}, &Entry::begin);
    for (std::size_t i = 1; i < entries.size(); ++i) {
      const Entry &a = entries[i - 1], &b = entries[i];
      if (b.begin < a.end)
        fail(b.name, fmt::format("data_offsets [{}, {}] overlap those of \"{}\", [{}, {}]", b.begin, b.end, a.name,
                                 a.begin, a.end));
    }
  }

  Bytes bytes_, data_;
  std::string_view file_;
};

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw DataError(fmt::format("cannot read {}: {}", path.string(), error.message()));
  std::ifstream stream(path, std::ios::binary);
  std::vector<std::byte> bytes(stream ? size : 0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream)
    throw DataError(fmt::format("cannot read {}: {} of {} bytes could be read", path.string(), stream.gcount(), size));
  return bytes;
}

}  // namespace

TensorFile parse_safetensors(Bytes bytes, std::string_view file) { return Reader(bytes, file).read(); }

TensorFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(read_bytes(path), path.string());
}

}  // namespace moxie
