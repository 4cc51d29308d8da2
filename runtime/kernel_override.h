#pragma once
// KernelOverrides: hand-edited kernels that take the place of generated ones, for MOXIE_KERNEL_OVERRIDE.
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace moxie {

/// The name of the file that holds a kernel's text: `k_y-<digest of its cache key>.ll`. MOXIE_DUMP writes it.
std::string kernel_file_name(std::string_view kernel, std::string_view cache_key, std::string_view extension);

class KernelOverrides {
 public:
  struct Replacement {
    std::filesystem::path file;
    std::string text;
  };

  /// An empty `directory` replaces nothing.
  explicit KernelOverrides(std::filesystem::path directory) : directory_(std::move(directory)) {}
  /// Logs which files replaced no kernel.
  ~KernelOverrides();
  KernelOverrides(const KernelOverrides&) = delete;
  KernelOverrides& operator=(const KernelOverrides&) = delete;

  /// Any number of threads may call at once. Throws DataError for a file that cannot be read.
  std::optional<Replacement> find(const std::string& file_name);
  /// Kernels replaced so far.
  std::size_t count() const;

 private:
  std::filesystem::path directory_;
  std::set<std::string> used_;  // file names
  mutable std::mutex mutex_;

  void log_unused_files() const;
};

}  // namespace moxie
