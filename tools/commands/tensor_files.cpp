#include "tools/commands/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/npy.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/kept_files.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kZipMark = "PK\3\4", kEmptyZipMark = "PK\5\6", kNpyMark = "\x93NUMPY";

bool starts_with(const fs::path& path, std::string_view mark) {
  std::string first(mark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  return file && first == mark;
}

/// Integers of 32 bits and more need a double, any other number of NumPy's fits a single.
DType dtype_of(NpyType type) {
  switch (type) {
    case NpyType::f8:
    case NpyType::i4:
    case NpyType::u4:
    case NpyType::i8:
      return DType::f64;
    case NpyType::f4:
    case NpyType::f2:
    case NpyType::i1:
    case NpyType::u1:
    case NpyType::i2:
    case NpyType::u2:
    case NpyType::b1:
      return DType::f32;
  }
  return DType::f64;
}

/// NumPy has no bf16: it becomes f4.
NpyType type_of(DType dtype) {
  const DTypeInfo& info = info_of(dtype);
  if (dtype == DType::bf16) return NpyType::f4;
  const char kind = dtype == DType::boolean ? 'b' : !info.integers ? 'f' : info.low < 0 ? 'i' : 'u';
  return npy_type(kind, info.bytes);
}

/// Integers of 64 bits stay what they are: not all of them are doubles.
HostTensor tensor_of(const NpyArray& array) {
  const auto* bytes = reinterpret_cast<const std::byte*>(array.bytes.data());
  if (array.type == NpyType::i8)
    return {DType::i64, {array.shape.begin(), array.shape.end()}, {bytes, bytes + array.bytes.size()}};
  return make_host_tensor(dtype_of(array.type), {array.shape.begin(), array.shape.end()}, array.to<double>());
}

NpyArray array_of(const HostTensor& tensor) {
  const bool is_known = tensor.dtype != DType::bf16;
  const HostTensor& known = is_known ? tensor : make_host_tensor(DType::f32, tensor.shape, to_doubles(tensor));
  return {type_of(tensor.dtype),
          {tensor.shape.begin(), tensor.shape.end()},
          std::string(reinterpret_cast<const char*>(known.data.data()), known.data.size())};
}

bool is_npz_name(const fs::path& path) { return path.extension() == ".npz"; }

}  // namespace

TensorFile read_tensor_file(const fs::path& path) {
  if (starts_with(path, kNpyMark))
    throw DataError(
        fmt::format("{}: is a .npy file, one array without a name; numpy.savez(\"FILE.npz\", x=x) writes it "
                    "as the input x",
                    path.string()));
  if (is_npz_name(path) && !starts_with(path, kZipMark) && !starts_with(path, kEmptyZipMark) && fs::exists(path))
    throw DataError(fmt::format("{}: is no .npz file, though its name says so", path.string()));
  if (starts_with(path, kEmptyZipMark)) throw DataError(fmt::format("{}: holds no arrays", path.string()));
  if (!starts_with(path, kZipMark)) return read_safetensors(path);
  TensorFile file;
  for (const auto& [name, array] : parse_npz(read_whole_file(path), path.string()))
    file.tensors.emplace(name, tensor_of(array));
  return file;
}

void write_tensor_file(const fs::path& path, const TensorFile& contents) {
  if (!is_npz_name(path)) return write_safetensors(path, contents);
  NpyArrays arrays;
  for (const auto& [name, tensor] : contents.tensors) arrays.emplace(name, array_of(tensor));
  atomic_write(path, print_npz(arrays, /*compress=*/false));
}

void check_output_name(const fs::path& output, const fs::path& input) {
  constexpr std::array<std::string_view, 6> kOthers = {".npy", ".csv", ".txt", ".json", ".h5", ".pt"};
  if (std::ranges::find(kOthers, output.extension().string()) != kOthers.end())
    throw UsageError(fmt::format("--out {}: tensors are written as FILE.safetensors or FILE.npz", output.string()));
  keep_file("--out", output, input);
}

}  // namespace moxie
