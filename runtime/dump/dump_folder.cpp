#include "runtime/dump/dump_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/dump/dump_json.h"
#include "runtime/dump/text_folder.h"
#include "runtime/file_name.h"
#include "runtime/private_file.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kFigures = "figures.txt";
/// Names that a dump holds come from a program or from a manifest.
constexpr std::string_view kNames = "the dump";

/// Names of files need not be UTF-8.
std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string file_name(const StageText& text, const std::string& kernel) {
  if (!text.file.empty()) return text.file;
  return (kernel.empty() ? text.title : kernel + "." + text.title) + text.extension;
}

/// Writes the texts; gives what the manifest says of them.
Json write_texts(const std::vector<StageText>& texts, const std::string& kernel, const fs::path& folder) {
  Json list = Json::array();
  for (const StageText& text : texts) {
    Json entry = stage_to_json(text);
    if (text.missing.empty()) {
      entry["file"] = file_name(text, kernel);
      entry["skipped_bytes"] = text.preamble.size();
      write_text(path_inside(folder, file_name(text, kernel), kNames), text.preamble + text.text);
    }
    if (!text.diff.empty()) {
      entry["diff"] = text.title + ".diff";
      write_text(path_inside(folder, text.title + ".diff", kNames), text.diff);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string read_part(const fs::path& folder, const std::string& name) {
  const auto text = read_regular_file(path_inside(folder, name, (folder / kManifest).string()));
  if (!text)
    throw DataError(fmt::format("{}: the file {} is missing; it stands in the manifest", folder.string(), name));
  return *text;
}

std::vector<StageText> read_texts(const Json& list, const fs::path& folder) {
  std::vector<StageText> texts;
  for (const Json& entry : list) {
    StageText text = stage_from_json(entry);
    if (text.missing.empty()) {
      text.file = entry.at("file");
      const std::string whole = read_part(folder, text.file);
      const std::size_t skipped = std::min(entry.at("skipped_bytes").get<std::size_t>(), whole.size());
      text.preamble = whole.substr(0, skipped);
      text.text = whole.substr(skipped);
    }
    if (entry.contains("diff")) text.diff = read_part(folder, entry.at("diff"));
    texts.push_back(std::move(text));
  }
  return texts;
}

Dump dump_from(const Json& manifest, const fs::path& folder) {
  if (manifest.at("format") != kFormat)
    throw DataError(fmt::format("{}: a dump of format {}; this program reads {}: dump again", folder.string(),
                                manifest.at("format").dump(), kFormat));
  Dump dump = head_from_json(manifest);
  dump.program = read_texts(manifest.at("program"), folder);
  for (const Json& entry : manifest.at("kernels"))
    dump.kernels.push_back({entry.at("name"), read_texts(entry.at("stages"), folder), figures_from_json(entry)});
  return dump;
}

void write_all(const Dump& dump, const fs::path& folder) {
  Json manifest = head_to_json(dump);
  manifest["format"] = kFormat;
  manifest["program"] = write_texts(dump.program, "", folder);
  manifest["kernels"] = Json::array();
  for (const KernelDump& kernel : dump.kernels) {
    Json entry = figures_to_json(kernel.figures);
    entry["name"] = kernel.name;
    entry["stages"] = write_texts(kernel.stages, kernel.name, folder);
    manifest["kernels"].push_back(std::move(entry));
  }
  write_text(folder / kFigures, figures_table(dump));
  write_text(folder / kManifest, to_text(manifest, -1));
}

}  // namespace

void write_dump(const Dump& dump, const fs::path& folder) {
  write_folder(folder, {"dump"}, [&](const fs::path& unfinished) { write_all(dump, unfinished); });
}

/// Other folders have manifests too, but no figures beside them.
bool is_dump_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kManifest, ignored) && fs::exists(folder / kFigures, ignored);
}

Dump read_dump(const fs::path& folder) {
  const auto text = read_regular_file(folder / kManifest);
  if (!text)
    throw DataError(fmt::format("{} is no dump: it has no {}; `moxie dump ... -o DIR` and MOXIE_DUMP=DIR write dumps",
                                folder.string(), kManifest));
  try {
    return dump_from(Json::parse(*text), folder);
  } catch (const Json::exception& problem) {
    throw DataError(fmt::format("{} is damaged: {}; dump again", (folder / kManifest).string(), problem.what()));
  }
}

std::string dump_json(const Dump& dump, bool with_texts) {
  const auto texts_of = [&](const std::vector<StageText>& texts) {
    Json object = Json::object();
    for (const StageText& text : texts) object[text.title] = text.missing.empty() ? Json(text.text) : Json(nullptr);
    return object;
  };
  Json json = head_to_json(dump);
  if (with_texts) json["program"] = texts_of(dump.program);
  json["kernels"] = Json::array();
  for (const KernelDump& kernel : dump.kernels) {
    Json entry = figures_to_json(kernel.figures);
    entry["name"] = kernel.name;
    if (with_texts) entry["stages"] = texts_of(kernel.stages);
    json["kernels"].push_back(std::move(entry));
  }
  return to_text(json, 1);
}

}  // namespace moxie
