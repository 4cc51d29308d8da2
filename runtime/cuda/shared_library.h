#pragma once
// Libraries of NVIDIA's that are loaded when they are first needed.
#include <filesystem>
#include <string>
#include <vector>

namespace moxie::cuda {

class SharedLibrary {
 public:
  struct Search {
    std::string part;                                // "NVRTC, NVIDIA's run-time compiler,"
    std::vector<std::string> names;                  // of the file, the preferred first
    std::vector<std::filesystem::path> directories;  // in order; an empty one stands for the system loader's own search
    std::string remedy;                              // "install the CUDA toolkit"
  };
  /// Throws DeviceError with all that was tried, and the remedy.
  explicit SharedLibrary(Search search);

  const std::string& file() const { return file_; }
  /// Throws DeviceError for a library that does not have the function.
  template <class F>
  void resolve(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(address(name));
  }

 private:
  void* address(const char* name) const;

  Search search_;
  std::string file_;
  void* library_ = nullptr;  // never closed: NVIDIA's libraries keep threads of their own
};

/// Where parts of a CUDA toolkit are looked for.
std::vector<std::filesystem::path> toolkit_directories();

}  // namespace moxie::cuda
