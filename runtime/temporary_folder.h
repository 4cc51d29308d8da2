#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace moxie {

/// A folder of its user alone, which goes with everything in it when this does. Throws DeviceError where none can be
/// made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The whole file. Throw DeviceError.
std::string read_text_file(const std::filesystem::path& path);
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace moxie
