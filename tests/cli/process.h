#pragma once
// The program `moxie` as a user runs it.
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/temporary_folder.h"

namespace moxie::test {

struct Outcome {
  int code = 0;
  std::string out, err;
  double seconds = 0;
};

/// A temporary folder with a kernel cache of its own; commands run inside it.
class Workshop {
 public:
  /// `environment` is put before the command: "MOXIE_THREADS=1 ".
  Outcome moxie(const std::vector<std::string>& arguments, const std::string& environment = "") const;
  /// Any command of the shell.
  Outcome shell(const std::string& command) const;
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, const std::string& text) const;

 private:
  TemporaryFolder folder_;
};

std::string read_file(const std::filesystem::path& path);
bool contains(const std::string& text, const std::string& part);

}  // namespace moxie::test
