#include "runtime/cache_key.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "compiler/rewrite/passes.h"
#include "runtime/cache_file.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

std::string pipeline_digest() {
  std::string names;
  for (const Pass& pass : passes()) names += fmt::format("{}\n{}\n", pass.name, pass.purpose);
  return key_digest(names);
}

}  // namespace

std::string key_head(std::string_view kind) {
  static const std::string pipeline = pipeline_digest();
  std::string head = fmt::format("{} of moxie {}, passes {}\n", kind, MOXIE_VERSION, pipeline);
  for (const Switch& known : switches()) {
    if (!known.changes_code) continue;
    if (const std::string value = switch_value(known.name); !value.empty())
      head += fmt::format("{}={}\n", known.name, value);
  }
  return head;
}

std::string file_stamp(const std::filesystem::path& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return "absent";
  return fmt::format("{} bytes of {}.{:09}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

}  // namespace moxie
