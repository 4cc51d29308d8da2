#include "tests/ops/reference_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace moxie::reference {

TensorValues read_tensors(const nlohmann::json& json) {
  TensorValues values;
  for (const auto& [name, tensor] : json.items()) values[name] = tensor.at("data").get<std::vector<double>>();
  return values;
}

DimValues shown_dims(const Program& program, const nlohmann::json& inputs) {
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

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& want, double absolute, double scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size()) return kInfinity;
  double difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return kInfinity;
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  return difference <= absolute ? 0 : (difference - absolute) / std::max(largest(want), scale);
}

}  // namespace moxie::reference
