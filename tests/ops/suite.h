#pragma once
// Formulas that were written elsewhere, with reference values: NAME.mox beside NAME.json in one folder.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/reference/evaluate.h"

namespace moxie::suite {

struct Case {
  std::string name;  // small, one, big
  DimValues dims;
  TensorValues inputs, outputs, cotangents, gradients;
  std::map<std::string, TensorValues> jacobians;  // of an output, by the inputs; few formulas have them
  double in_double = 0, in_single = 0;            // tolerances, relative as error_of() counts
};

struct Formula {
  Program program;
  std::vector<Case> cases;
};

/// The files NAME.mox in `folder`, sorted. Throws std::runtime_error where one has no NAME.json beside it.
std::vector<std::filesystem::path> formulas(const std::filesystem::path& folder);

/// Throws std::runtime_error, with the file, where a case lacks a tolerance, outputs, or a dim's value.
Formula read_formula(const std::filesystem::path& text);

/// How far a value is from its reference, over the largest element of the tensor.
double error_of_output(const Case& reference, const std::string& name, const std::vector<double>& got);
double error_of_jacobian(const Case& reference, const std::string& output, const std::string& input,
                         const std::vector<double>& got);
/// The same for a gradient; a thousandth of the largest element of all gradients is the least that it is divided by.
double error_of_gradient(const Case& reference, const std::string& name, const std::vector<double>& got);

}  // namespace moxie::suite
