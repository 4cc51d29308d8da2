#pragma once
// The catalogue of built-in formulas. Each is a .mox file below ops/, named after the operation and embedded when moxie
// is built.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/text_library.h"

namespace moxie {

/// The leading comment lines of the file are, in order: a summary, the equations, and (where there are any) `constants:
/// x, y`.
struct Op {
  std::string_view name;  // "gpn.response_mean"
  std::string_view summary;
  std::string_view equations;
  std::string_view text;  // the whole file
  std::vector<std::string_view>
      constants;  // inputs that are never differentiated with respect to: data and fixed settings
};

/// All operations, sorted by name.
std::span<const Op> catalogue();
/// The operation, or nullptr.
const Op* find_op(std::string_view name);
/// The operation; throws TypeError with the closest names when there is none.
const Op& get_op(std::string_view name);
/// What texts find in the catalogue: formulas by `use`, and by `include` what these share (ops/functions). They include
/// no files.
TextLibrary catalogue_library();
/// The operation's Program, named after it; throws TypeError as get_op does.
Program load_op(std::string_view name);
/// The names of the inputs of `program` that `op` does not hold constant, in the program's order.
std::vector<std::string> differentiable_inputs(const Op& op, const Program& program);

}  // namespace moxie
