#include "runtime/cpu/llvm_library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <sstream>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/cache_key.h"
#include "runtime/cpu/plugin.h"
#include "runtime/log.h"
#include "runtime/private_file.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaximumNote = 1 << 16;

struct Note {
  fs::path plugin, library;
  std::string plugin_stamp, library_stamp, version;
};

std::string print(const Note& note) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n", note.plugin.string(), note.plugin_stamp, note.library.string(),
                     note.library_stamp, note.version);
}

std::optional<Note> parse_note(const std::string& text) {
  std::istringstream lines(text);
  std::string plugin, plugin_stamp, library, library_stamp, version, rest;
  for (std::string* line : {&plugin, &plugin_stamp, &library, &library_stamp, &version})
    if (!std::getline(lines, *line) || line->empty()) return std::nullopt;
  if (std::getline(lines, rest)) return std::nullopt;
  return Note{plugin, library, plugin_stamp, library_stamp, version};
}

/// One note for each way in which the loader can be told where to look.
std::string note_name() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::string search = fmt::format("{}\n", path == nullptr ? "" : path);
  for (const fs::path& directory : plugin_directories()) search += directory.string() + "\n";
  return "llvm-" + key_digest(search);
}

/// A file that is absent cannot have been replaced by another: code of the cache runs where there is no LLVM.
bool is_same_file(const fs::path& file, const std::string& stamp) {
  const std::string now = file_stamp(file);
  return now == stamp || now == file_stamp({});
}

/// Whether the plugin would be loaded from there, as far as files tell.
bool is_found_first(const fs::path& plugin) {
  for (const fs::path& candidate : llvm_plugin_candidates()) {
    std::error_code error;
    if (fs::exists(candidate, error)) return fs::equivalent(candidate, plugin, error);
  }
  return true;
}

std::optional<Note> read_note(const fs::path& cache) {
  try {
    const auto text = PrivateFolder::open(cache).read(note_name(), kMaximumNote);
    auto note = text ? parse_note(*text) : std::nullopt;
    const bool holds = note && is_found_first(note->plugin) && is_same_file(note->plugin, note->plugin_stamp) &&
                       is_same_file(note->library, note->library_stamp);
    return holds ? note : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void write_note(const fs::path& cache, const Note& note) {
  try {
    PrivateFolder::open(cache).write(note_name(), print(note));
  } catch (const std::exception& error) {
    log_info(LogChannel::Cache, "LLVM will be loaded again to learn its version: {}", error.what());
  }
}

Note note_of_loaded() {
  const fs::path plugin = llvm_plugin_path(), library = llvm_library_path();
  return {plugin, library, file_stamp(plugin), file_stamp(library), llvm_version()};
}

std::string in_key(const Note& note) { return fmt::format("{}, {}", note.version, note.library_stamp); }

}  // namespace

std::string llvm_library(const fs::path& cache) {
  try {
    if (llvm_is_loaded()) {
      static const Note loaded = note_of_loaded();
      return in_key(loaded);
    }
    if (cache.empty()) return in_key(note_of_loaded());
    if (const auto known = read_note(cache)) return in_key(*known);
    const Note found = note_of_loaded();
    write_note(cache, found);
    return in_key(found);
  } catch (const CompileError&) {
    return "no LLVM";
  }
}

}  // namespace moxie
