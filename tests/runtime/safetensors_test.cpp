#include "runtime/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "compiler/support/error.h"
#include "runtime/temporary_folder.h"

using namespace moxie;

namespace {

using Bytes = std::vector<std::byte>;

TensorFile sample() {
  TensorFile file;
  file.tensors["weights"] = make_host_tensor(DType::f32, {2, 3}, std::vector<double>{1, -2.5, 3, 4, 5, 6});
  file.tensors["odd"] = make_host_tensor(DType::f32, {1}, std::vector<double>{7});
  file.tensors["scale"] = make_host_tensor(DType::f64, {}, std::vector<double>{0.1});
  file.tensors["nothing"] = make_host_tensor(DType::f64, {0, 4}, {});
  file.metadata = {{"model", "gpn"}, {"note", "\"quoted\" and \xC3\xA9"}};
  return file;
}

/// A file with this header and `size` bytes of data 0, 1, 2, ...
Bytes file_of(const std::string& header, std::size_t size) {
  Bytes bytes(8 + header.size() + size);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < size; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  return bytes;
}

std::string complaint(std::span<const std::byte> bytes) {
  try {
    parse_safetensors(bytes, "a.safetensors");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("what is written is read") {
  const Bytes bytes = format_safetensors(sample());
  CHECK(parse_safetensors(bytes, "a") == sample());
  CHECK(format_safetensors(parse_safetensors(bytes, "a")) == bytes);
  CHECK(parse_safetensors(format_safetensors({}), "empty") == TensorFile{});
}

TEST_CASE("a file on disk is read, and replaced whole") {
  std::optional<TemporaryFolder> folder(std::in_place);
  const std::filesystem::path path = folder->path() / "a.safetensors";
  write_safetensors(path, {});
  write_safetensors(path, sample());
  CHECK(read_safetensors(path) == sample());
  CHECK(std::distance(std::filesystem::directory_iterator(folder->path()), {}) == 1);
  folder.reset();
  CHECK_THROWS_WITH_AS(read_safetensors(path), ("cannot read " + path.string() + ": No such file or directory").c_str(),
                       DataError);
  CHECK_THROWS_AS(read_safetensors(std::filesystem::temp_directory_path()), DataError);
}

TEST_CASE("data and header are aligned, and the header's spelling is the format's") {
  const Bytes bytes =
      format_safetensors({{{"x", make_host_tensor(DType::f32, {1, 2}, std::vector<double>{1, 2})}}, {}});
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  CHECK(text.substr(8, 56) == R"({"x":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]}})");
  CHECK(bytes.size() == 8 + 56 + 8);
}

TEST_CASE("elements keep their dtype, and every byte of a BOOL that is not 0 is 1") {
  const Bytes bytes = file_of(
      R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
      R"("c":{"dtype":"U8","shape":[2],"data_offsets":[12,14]},"d":{"dtype":"BOOL","shape":[],"data_offsets":[1,1]}})",
      14);
  CHECK(contains(complaint(bytes), "tensor \"d\": data_offsets [1, 1] hold 0 bytes, but BOOL of shape [] needs 1"));
  const TensorFile file = parse_safetensors(
      file_of(
          R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
          R"("c":{"dtype":"U8","shape":[2],"data_offsets":[12,14]},"d":{"dtype":"BOOL","shape":[],"data_offsets":[14,15]}})",
          15),
      "a");
  CHECK(to_doubles(file.tensors.at("a")) == std::vector<double>{0x0706050403020100});
  CHECK(to_doubles(file.tensors.at("b")) == std::vector<double>{0x0B0A0908});
  CHECK(to_doubles(file.tensors.at("c")) == std::vector<double>{12, 13});
  CHECK(to_doubles(file.tensors.at("d")) == std::vector<double>{1});
  CHECK(file.tensors.at("a").dtype == DType::i64);
  CHECK(file.tensors.at("b").dtype == DType::i32);
  CHECK(file.tensors.at("c").dtype == DType::u8);
  CHECK(file.tensors.at("d").dtype == DType::boolean);
  CHECK(parse_safetensors(format_safetensors(file), "a") == file);
}

TEST_CASE("bytes behind the last tensor and spaces behind the header are ignored") {
  Bytes bytes = format_safetensors(sample());
  bytes.resize(bytes.size() + 13);
  CHECK(parse_safetensors(bytes, "a") == sample());
  CHECK(complaint(file_of("{}      ", 0)) == "");
}

TEST_CASE("a damaged header is refused with file, tensor and offsets") {
  const auto x = [](const std::string& fields) { return "{\"x\":{" + fields + "}}"; };
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"[1]", "a.safetensors: the header is not a JSON object"},
      {"{\"x\":", "the header is not JSON"},
      {"{\"__metadata__\":{\"a\":1}}", "__metadata__ \"a\" is not a text"},
      {"{\"__metadata__\":3}", "__metadata__ is not a map of texts"},
      {"{\"x\":7}", "tensor \"x\": dtype is missing"},
      {"{\"x\":{},\"x\":{}}", "tensor \"x\": the header names it twice"},
      {"{\"x\":[[[[[[]]]]]]}", "the header is nested too deeply"},
      {x(R"("dtype":"U16")"), "tensor \"x\": dtype \"U16\" is not one of F32, F64, I32, I64, U8, BOOL, F16, BF16"},
      {x(R"("dtype":"F32","shape":[-1])"), "tensor \"x\": shape is not a list of whole numbers"},
      {x(R"("dtype":"F32","shape":[1.5])"), "tensor \"x\": shape is not a list of whole numbers"},
      {x(R"("dtype":"F32","shape":[])"), "tensor \"x\": data_offsets is missing"},
      {x(R"("dtype":"F32","shape":[],"data_offsets":[0])"), "data_offsets holds 1 numbers instead of 2"},
      {x(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "data_offsets [0, 16] lie outside the data of 8 bytes"},
      {x(R"("dtype":"F32","shape":[1],"data_offsets":[8,4])"), "data_offsets [8, 4] lie outside the data of 8 bytes"},
      {x(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "hold 8 bytes, but F32 of shape [3] needs 12"},
      {x(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "is too large"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       "tensor \"y\": data_offsets [2, 6] overlap those of \"x\", [0, 4]"},
  };
  for (const auto& [header, message] : damaged) {
    const std::string got = complaint(file_of(header, 8));
    CHECK_MESSAGE(contains(got, message), got);
  }
}

TEST_CASE("a header size beyond the file or the limit is refused") {
  Bytes bytes = file_of("{}", 0);
  CHECK(complaint(std::span(bytes).first(5)) ==
        "a.safetensors: 5 bytes are too few for a safetensors file; write the file again");
  bytes[0] = std::byte{3};
  CHECK(contains(complaint(bytes), "the header has 3 bytes but only 2 follow"));
  bytes[7] = std::byte{0xFF};
  CHECK(contains(complaint(bytes), "at most 100000000 are allowed"));
}

TEST_CASE("a file cut off at any byte is refused") {
  const Bytes bytes = format_safetensors(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_AS(parse_safetensors(std::span(bytes).first(size), "cut"), DataError);
}

TEST_CASE("a file with flipped bits is refused or gives well-formed tensors") {
  const Bytes bytes = format_safetensors(sample());
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = bytes;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<std::byte>(1u << random() % 8);
    try {
      for (const auto& [name, tensor] : parse_safetensors(damaged, "damaged").tensors)
        REQUIRE(tensor.data.size() == static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype));
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("what cannot be stored is refused") {
  TensorFile file = sample();
  file.tensors["weights"].data.pop_back();
  CHECK_THROWS_WITH_AS(format_safetensors(file), "tensor \"weights\" of shape [2, 3] holds 23 bytes instead of 24",
                       DataError);
  file = sample();
  file.metadata["bad"] = "\xFF";
  CHECK_THROWS_WITH_AS(format_safetensors(file), doctest::Contains("a metadata text is not UTF-8"), DataError);
  file = sample();
  file.tensors["__metadata__"] = file.tensors["odd"];
  CHECK_THROWS_AS(format_safetensors(file), DataError);
}

TEST_CASE("a host tensor keeps its values and refuses a wrong shape") {
  const double tiny = std::numeric_limits<double>::denorm_min();
  CHECK(to_doubles(make_host_tensor(DType::f64, {2}, std::vector<double>{tiny, -1e300})) ==
        std::vector<double>{tiny, -1e300});
  CHECK_THROWS_WITH_AS(make_host_tensor(DType::f32, {2, 2}, std::vector<double>{1}),
                       "1 values do not fill a tensor of shape [2, 2]", DataError);
  CHECK_THROWS_AS(element_count(std::vector<std::int64_t>{1, -1}), DataError);
  CHECK_THROWS_AS(element_count(std::vector<std::int64_t>{1ll << 40, 1ll << 40}), DataError);
}

TEST_CASE("every dtype returns from a file as it was") {
  TensorFile file;
  for (const DTypeInfo& row : dtypes())
    file.tensors[row.name] = make_host_tensor(row.dtype, {3}, std::vector<double>{1, 0, 1});
  CHECK(parse_safetensors(format_safetensors(file), "a") == file);
  CHECK(to_doubles(file.tensors.at("f16")) == std::vector<double>{1, 0, 1});
}
