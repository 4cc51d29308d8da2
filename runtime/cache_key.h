#pragma once
// What the key of a kernel holds besides the kernel's text.
#include <filesystem>
#include <string>
#include <string_view>

namespace moxie {

/// Moxie's version, the names of its formula passes in order as one number, and the switches that change code: a kernel
/// of another version, another list of passes or other switches is another kernel.
std::string key_head(std::string_view kind);

/// Size and time of a file as a text that changes when another file takes its place; "absent" where there is none.
std::string file_stamp(const std::filesystem::path& file);

}  // namespace moxie
