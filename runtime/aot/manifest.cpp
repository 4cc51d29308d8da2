#include "runtime/aot/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/support/error.h"

namespace moxie::aot {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const TensorArgument& tensor) {
  Json shape = Json::array();
  for (const Affine& extent : tensor.shape) shape.push_back(print(extent));
  return {{"name", tensor.name}, {"field", tensor.field}, {"dtype", to_string(tensor.dtype)}, {"shape", shape}};
}

Json to_json(const FunctionEntry& entry) {
  Json inputs = Json::array(), outputs = Json::array(), dims = Json::array();
  for (const DimArgument& dim : entry.interface.dims) dims.push_back(dim.field);
  for (const TensorArgument& tensor : entry.interface.tensors)
    (tensor.output ? outputs : inputs).push_back(to_json(tensor));
  return {{"name", entry.interface.name},
          {"dims", dims},
          {"inputs", inputs},
          {"outputs", outputs},
          {"random", entry.interface.random},
          {"formula", entry.formula}};
}

/// How print() begins.
constexpr std::string_view kBegin = "{\n \"format\": ";

FunctionEntry function_from(const Json& json) {
  const auto formula = json.at("formula").get<std::string>();
  const Program program = parse(formula, "formula");
  return {interface_of(program, json.at("name").get<std::string>(), json.at("random").get<bool>()), formula};
}

Manifest manifest_from(const Json& json) {
  Manifest manifest{json.at("library").get<std::string>(),
                    json.at("moxie").get<std::string>(),
                    json.at("compiler").get<std::string>(),
                    json.at("targets").get<std::vector<std::string>>(),
                    {}};
  for (const Json& function : json.at("functions")) manifest.functions.push_back(function_from(function));
  return manifest;
}

}  // namespace

std::string print(const Manifest& manifest) {
  Json functions = Json::array();
  for (const FunctionEntry& entry : manifest.functions) functions.push_back(to_json(entry));
  const Json json = {{"format", kManifestFormat},     {"library", manifest.library}, {"moxie", manifest.moxie},
                     {"compiler", manifest.compiler}, {"targets", manifest.targets}, {"functions", functions}};
  return json.dump(1) + "\n";
}

Manifest read_manifest(std::string_view bytes, const std::string& file) {
  const std::size_t begin = bytes.find(kBegin);
  if (begin == std::string_view::npos)
    throw DataError(file + ": holds no library made by `moxie aot`: there is no manifest in it");
  const std::size_t end = std::min(bytes.find('\0', begin), bytes.size());
  try {
    const Json json = Json::parse(bytes.substr(begin, end - begin));
    const int format = json.at("format").get<int>();
    if (format != kManifestFormat)
      throw DataError(
          fmt::format("{}: a library of format {}, made by moxie {}, but this is moxie {} with format {}; make "
                      "the library anew, or use that moxie",
                      file, format, json.value("moxie", "?"), MOXIE_VERSION, kManifestFormat));
    return manifest_from(json);
  } catch (const Json::exception& error) {
    throw DataError(
        fmt::format("{}: the library's manifest is damaged: {}; make the library anew", file, error.what()));
  }
}

}  // namespace moxie::aot
