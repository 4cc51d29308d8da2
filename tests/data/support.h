#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "compiler/support/error.h"
#include "runtime/temporary_folder.h"

namespace moxie::test {

/// The message of the DataError that `action` throws; "" if it throws none.
template <class Action>
std::string data_error(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

/// A folder for the files of one test.
struct DataFolder : TemporaryFolder {
  std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << bytes;
    return path() / name;
  }
};

}  // namespace moxie::test
