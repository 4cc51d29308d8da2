#pragma once
// Naming a Program, its dims and its gradients on a command line.
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "tools/commands/option_parser.h"

namespace moxie {

/// The argument FILE.mox|OP and the options --dim, --dtype, --precision and --include.
struct ProgramChoice {
  std::string source;
  std::vector<std::string> dims;
  std::string dtype;
  std::string precision = {};
  std::vector<std::string> folders = {};
};
void add_program_options(OptionParser& parser, ProgramChoice& choice);

/// A file if the name ends in .mox or holds a slash, else a built-in operation; in the chosen dtype and precision.
Program load_program(const ProgramChoice& choice);
/// Throws TypeError for a formula without outputs, which computes nothing.
void require_outputs(const Program& program);
/// As --dtype and --precision say.
Program as_chosen(Program program, const ProgramChoice& choice);
/// The option --include.
void add_include_option(OptionParser& parser, std::vector<std::string>& folders);
/// The option --precision.
void add_precision_option(OptionParser& parser, std::string& precision);
/// In that precision; as it is where `precision` is empty.
Program in_precision(Program program, const std::string& precision);
/// The outputs of these names. `all` is all that have a derivative, where no definition is called so.
std::vector<std::string> chosen_outputs(const Program& program, const std::vector<std::string>& names);
/// The options --grad and --wrt.
void add_gradient_options(OptionParser& parser, std::vector<std::string>& grad, std::vector<std::string>& wrt);
/// The program with the gradients of `grad`; with respect to all differentiable inputs of `source` if `wrt` is empty.
Program with_gradients(const Program& program, const std::string& source, const std::vector<std::string>& grad,
                       const std::vector<std::string>& wrt);

/// What is derived from a formula: nothing, or one of gradients, tangents, products with Hessians and Jacobians.
struct DerivativeChoice {
  std::vector<std::string> grad, tangent, hvp, jacobian;  // outputs
  std::vector<std::string> wrt;
  std::string mode = "auto";  // of the Jacobian

  bool any() const { return !grad.empty() || !tangent.empty() || !hvp.empty() || !jacobian.empty() || !wrt.empty(); }
};
/// The options --grad, --tangent, --hvp, --jacobian, --mode and --wrt.
void add_derivative_options(OptionParser& parser, DerivativeChoice& choice);
/// The program with what is chosen; with respect to all differentiable inputs of `source` if `wrt` is empty. The mode
/// of a Jacobian follows from `dims`.
Program with_derivatives(const Program& program, const std::string& source, const DerivativeChoice& choice,
                         const DimValues& dims);

}  // namespace moxie
