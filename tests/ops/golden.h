#pragma once
// Golden cases: an operation's inputs with the outputs and gradients they must give.
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/reference/evaluate.h"

namespace moxie::golden {

/// Relative to the largest element wanted. 1 says that a straightforward evaluation has no digits left in this
/// precision, so that nothing is compared.
struct Tolerances {
  double value = 0;
  double gradient = 0;
  double absolute = 0;
};

struct Case {
  std::string op, name, note;
  DimValues dims;  // of the op's Program
  TensorValues inputs, outputs, cotangents, gradients;
  std::vector<std::string> symmetric_inputs;  // in their last two axes, and so are their gradients
  Tolerances in_double, in_single;
};

/// The cases in the text of a file about `op`. Throws std::runtime_error where a tolerance is missing, where a case has
/// no outputs, and where it has no gradients and no note that says why.
std::vector<Case> parse_cases(const std::string& op, const std::string& text);

/// The cases of all files NAME.json in `folder`, in the order of their names; each NAME is an operation.
std::vector<Case> read_cases(const std::filesystem::path& folder);

/// The operations of which no gradient can be compared.
bool has_gradients(const std::string& op);

/// (G + G^T)/2 over the last two axes of length `size`.
std::vector<double> symmetrised(const std::vector<double>& values, std::size_t size);

}  // namespace moxie::golden
