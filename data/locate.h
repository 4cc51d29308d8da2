#pragma once
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace moxie {

/// Finds `file`, or `file`.gz, in data_dir/folder for each folder in turn ("" is data_dir itself). Throws DataError
/// with every path tried and `origin`, where the data can be had.
std::filesystem::path locate(const std::filesystem::path& data_dir,
                             std::initializer_list<std::filesystem::path> folders, std::string_view file,
                             std::string_view origin);

}  // namespace moxie
