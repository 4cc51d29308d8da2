#pragma once
// What Python asks of Programs.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie::python {

/// An input or output as Python sees it: name, dtype, extents as text, declared domain as text.
struct TensorInfo {
  std::string name;
  std::string dtype;               // "float32"
  std::vector<std::string> shape;  // "S", "N + 1"
  std::string domain;              // ">= 0"; empty where any value is allowed
};

/// Parses and verifies. Throws PythonError (FormulaError) for whatever is wrong with the text.
Program parse_formula(const std::string& text, const std::string& file, const std::string& name);
/// A formula of the catalogue. Throws TypeError for an unknown name, with the closest ones.
Program catalogue_formula(const std::string& name);
std::vector<std::string> catalogue_names();
/// The formula in a file, which may include others from its folder and from `folders`. Throws as parse_formula.
Program read_formula(const std::string& path, const std::string& name, const std::vector<std::string>& folders);

std::vector<TensorInfo> inputs_of(const Program& program);
std::vector<TensorInfo> outputs_of(const Program& program);
std::vector<std::vector<Affine>> output_shapes(const Program& program);
/// Whether it draws random numbers.
bool is_random(const Program& program);
/// jacobian() in the mode "auto", "forward" or "reverse". Throws PythonError (InputError) for another.
Program jacobian_of(const Program& program, const std::vector<std::string>& outputs,
                    const std::vector<std::string>& wrt, const std::string& mode,
                    const std::map<std::string, std::int64_t>& dims);
/// With `name` = 1 everywhere in place of the input: the cotangent of a sum.
Program with_unit_input(Program program, const std::string& name);

}  // namespace moxie::python
