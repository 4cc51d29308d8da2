#include "runtime/aot/manifest.h"

#include <nlohmann/json.hpp>

namespace moxie::aot {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const TensorArgument& tensor) {
  Json shape = Json::array();
  for (const Affine& extent : tensor.shape) shape.push_back(print(extent));
  return {{"name", tensor.name},
          {"field", tensor.field},
          {"dtype", tensor.dtype == DType::f32 ? "f32" : "f64"},
          {"shape", shape}};
}

Json to_json(const FunctionEntry& entry) {
  Json inputs = Json::array(), outputs = Json::array(), dims = Json::array();
  for (const DimArgument& dim : entry.interface.dims) dims.push_back(dim.field);
  for (const TensorArgument& tensor : entry.interface.tensors)
    (tensor.output ? outputs : inputs).push_back(to_json(tensor));
  return {{"name", entry.interface.name}, {"dims", dims},   {"inputs", inputs}, {"outputs", outputs},
          {"random", entry.interface.random}, {"formula", entry.formula}};
}

}  // namespace

std::string print(const Manifest& manifest) {
  Json functions = Json::array();
  for (const FunctionEntry& entry : manifest.functions) functions.push_back(to_json(entry));
  const Json json = {{"format", kManifestFormat},     {"library", manifest.library},
                     {"moxie", manifest.moxie},       {"compiler", manifest.compiler},
                     {"targets", manifest.targets},   {"functions", functions}};
  return json.dump(1) + "\n";
}

}  // namespace moxie::aot
