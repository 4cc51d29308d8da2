#pragma once
// Safetensors files (https://github.com/huggingface/safetensors): named tensors and a map of texts.
//
// A file is the size of its header (8 bytes, little-endian), the header (JSON: dtype, shape and data_offsets of every
// tensor), and the data.
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/host_tensor.h"

namespace moxie {

struct TensorFile {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
  bool operator==(const TensorFile&) const = default;
};

/// Reads F32 and F64 as they are, I64 and I32 as f64, U8 and BOOL as f32. Bytes behind the last tensor are ignored,
/// since real files have them; anything else that is wrong throws DataError with the file, the tensor and its offsets.
TensorFile read_safetensors(const std::filesystem::path& path);
/// The same from memory; `file` stands in messages.
TensorFile parse_safetensors(std::span<const std::byte> bytes, std::string_view file);

/// Writes the file whole or not at all. Equal contents give equal bytes.
void write_safetensors(const std::filesystem::path& path, const TensorFile& contents);
std::vector<std::byte> format_safetensors(const TensorFile& contents);

}  // namespace moxie
