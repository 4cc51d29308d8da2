#include "tests/ops/golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "ops/catalogue.h"

namespace moxie::golden {
namespace {

using Json = nlohmann::json;

TensorValues tensors(const Json& json) {
  TensorValues values;
  for (const auto& [name, tensor] : json.items()) values[name] = tensor.at("data").get<std::vector<double>>();
  return values;
}

DimValues dims_of(const Program& program, const Json& inputs) {
  DimValues dims;
  for (const InputDecl& input : program.inputs) {
    const auto shape = inputs.at(input.name).at("shape").get<std::vector<std::int64_t>>();
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const Affine& extent = input.shape.at(k);
      if (extent.terms().size() != 1) continue;
      const auto& [symbol, factor] = extent.terms().front();
      dims[symbol.name()] = (shape[k] - extent.constant()) / factor;
    }
  }
  return dims;
}

Case read_case(const Json& json, const std::vector<std::string>& symmetric, const Program& program) {
  Case result;
  result.op = json.at("op");
  result.name = json.at("name");
  result.dims = dims_of(program, json.at("inputs"));
  result.inputs = tensors(json.at("inputs"));
  result.outputs = tensors(json.at("outputs"));
  result.cotangents = tensors(json.at("cotangents"));
  result.gradients = tensors(json.at("gradients"));
  result.symmetric_inputs = symmetric;
  result.tolerances = {json.at("rtol_float64"), json.value("rtol_grad_float64", 0.0), json.value("atol_float64", 0.0)};
  result.tolerances_f32 = {json.value("rtol_float32", 1.0), json.value("rtol_grad_float32", 1.0),
                           json.value("atol_float32", 0.0)};
  return result;
}

}  // namespace

std::vector<Case> read_cases(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json" && find_op(entry.path().stem().string())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Case> cases;
  for (const auto& file : files) {
    const Json json = Json::parse(std::ifstream(file));
    const Program program = load_op(file.stem().string());
    const auto symmetric = json.value("symmetric_inputs", std::vector<std::string>());
    for (const Json& item : json.at("cases")) cases.push_back(read_case(item, symmetric, program));
  }
  return cases;
}

std::vector<double> symmetrised(const std::vector<double>& values, std::size_t size) {
  std::vector<double> result = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t block = i / (size * size) * (size * size);
    const std::size_t mirror = block + i % size * size + i / size % size;
    result[i] = (values[i] + values[mirror]) / 2;
  }
  return result;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& want, double absolute) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double scale = 0;
  double difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    scale = std::max(scale, std::abs(want[i]));
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  return difference <= absolute ? 0 : (difference - absolute) / scale;
}

}  // namespace moxie::golden
