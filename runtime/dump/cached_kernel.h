#pragma once
// An entry of the kernel cache as a dump: the text that it was compiled from, and its code.
#include <filesystem>

#include "runtime/dump/dump.h"

namespace moxie {

/// Throws DataError for a file that is no entry, or that holds no kernel's code.
Dump dump_of_cached_kernel(const std::filesystem::path& file);

}  // namespace moxie
