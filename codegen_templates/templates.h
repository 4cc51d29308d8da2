#pragma once
// The files of this folder's folders, embedded at build time.
#include <string_view>

namespace moxie {

/// The text of a file by its path from here: "cuda_emu/emulation.h". Throws InternalError for one that does not exist.
std::string_view template_text(std::string_view path);

}  // namespace moxie
