#pragma once
// Golden cases: an operation's inputs with the outputs and gradients they must give.
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/ir/evaluate.h"

namespace moxie::golden {

struct Tolerances {
  double value = 0;     // relative to the largest element wanted
  double gradient = 0;  // the same for gradients
  double absolute = 0;
};

struct Case {
  std::string op, name;
  DimValues dims;  // of the op's Program, as far as the inputs' shapes show them
  TensorValues inputs, outputs, cotangents, gradients;
  std::vector<std::string> symmetric_inputs;  // in their last two axes, and so are their gradients
  Tolerances tolerances;                      // in double
  Tolerances tolerances_f32;                  // 1: no digits are left in single
};

/// The cases of all files NAME.json in `folder` whose NAME is an operation of the catalogue, in the order of their
/// names.
std::vector<Case> read_cases(const std::filesystem::path& folder);

/// (G + G^T)/2 over the last two axes of length `size`.
std::vector<double> symmetrised(const std::vector<double>& values, std::size_t size);

/// Largest difference over largest wanted value and absolute tolerance: passes when at most `relative`.
double relative_error(const std::vector<double>& got, const std::vector<double>& want, double absolute);

}  // namespace moxie::golden
