#pragma once
// Reference values in files of JSON, and how far computed values are from them.
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compiler/reference/evaluate.h"

namespace moxie::reference {

/// {"NAME": {"shape": [..], "data": [row-major numbers]}, ..}
TensorValues read_tensors(const nlohmann::json& json);

/// The dims of `program` that the shapes of its inputs show.
DimValues shown_dims(const Program& program, const nlohmann::json& inputs);

/// max|got - want| beyond `absolute`, over max|want| or `scale` if that is larger. Infinite where the sizes differ, and
/// where an element of either is not finite: such values are compared with nothing.
double relative_error(const std::vector<double>& got, const std::vector<double>& want, double absolute = 0,
                      double scale = 0);

/// max|value|
double largest(const std::vector<double>& values);

}  // namespace moxie::reference
