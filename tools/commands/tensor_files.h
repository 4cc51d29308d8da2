#pragma once
// Files of named tensors that commands read and write: safetensors, and NumPy's .npz.
#include <filesystem>

#include "runtime/safetensors.h"

namespace moxie {

/// A file that begins as a zip archive holds NumPy's arrays, any other safetensors; numbers of both become what
/// read_safetensors() makes of them. Throws DataError, naming the file.
TensorFile read_tensor_file(const std::filesystem::path& path);

/// FILE.npz gets NumPy's arrays, without the metadata and with bf16 as float32, any other name safetensors. The file is
/// written whole or not at all.
void write_tensor_file(const std::filesystem::path& path, const TensorFile& contents);

/// Throws UsageError for the name of a format that write_tensor_file() does not write, and for the file that was read.
void check_output_name(const std::filesystem::path& output, const std::filesystem::path& input);

}  // namespace moxie
