#pragma once
// Which LLVM compiles kernels in this process, known without loading it.
#include <filesystem>
#include <string>

namespace moxie {

/// "LLVM 19.1.7" with the size and time of its shared library, for the keys of kernels. A library that is not loaded
/// yet is known from a note in `cache`, which holds as long as the plugin and the library that it names are the same
/// files; without such a note the plugin is loaded, and the note written. An empty `cache` has no notes. Where there is
/// no plugin this says so, and the compiler throws when it is called.
std::string llvm_library(const std::filesystem::path& cache);

}  // namespace moxie
