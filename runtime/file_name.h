#pragma once
// Names that were read from a file and are to become files themselves.
#include <filesystem>
#include <string>
#include <string_view>

namespace moxie {

/// The file `name` directly inside `folder`. Every name that a file, an archive or a caller gives becomes a path here
/// and nowhere else. Throws DataError, naming `source`, for a name that could lead elsewhere or that no file should
/// have: an empty one, "." and "..", one with a slash or a control character, and one of more than 255 bytes.
std::filesystem::path path_inside(const std::filesystem::path& folder, std::string_view name, std::string_view source);

}  // namespace moxie
