#include "tools/commands/program_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/differentiate.h"
#include "compiler/diff/jacobian.h"
#include "compiler/diff/tangents.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/formula_file.h"
#include "tools/commands/command.h"
#include "tools/commands/parsed_source.h"

namespace moxie {

void add_program_options(OptionParser& parser, ProgramChoice& choice) {
  parser
      .add_option("program", choice.source,
                  "a .mox file, - for one on the standard input, or the name of a built-in formula (see `moxie ops`)")
      .required();
  parser.add_option("--dim", choice.dims, "values of dims, such as S=8,N=5: of those that no input shows")
      .comma_separated();
  parser.add_option("--dtype", choice.dtype, "the default dtype of the formula: f32 or f64").one_of({"f32", "f64"});
  add_precision_option(parser, choice.precision);
  add_include_option(parser, choice.folders);
}

void add_include_option(OptionParser& parser, std::vector<std::string>& folders) {
  parser
      .add_option("--include", folders,
                  "folders of files that the .mox file includes, besides its own folder and those below")
      .comma_separated();
}

void add_precision_option(OptionParser& parser, std::string& precision) {
  parser
      .add_option("--precision", precision,
                  "which rewrites are allowed: strict keeps infinities, NaN and cancellation as the formula is written "
                  "(the default), fast uses all laws of the real numbers, accurate is strict and adds up in double")
      .one_of({"strict", "fast", "accurate"});
}

Program in_precision(Program program, const std::string& precision) {
  if (!precision.empty()) program.precision = precision_named(precision).value();
  return program;
}

ParsedText load_parsed(const ProgramChoice& choice) {
  ParsedText parsed = is_file_name(choice.source) ? read_parsed(choice.source, choice.folders, choice.dims)
                                                  : ParsedText{load_op(choice.source), {}};
  if (parsed.program.name.empty()) parsed.program.name = choice.source;
  parsed.program = as_chosen(std::move(parsed.program), choice);
  return parsed;
}

Program load_program(const ProgramChoice& choice) { return load_parsed(choice).program; }

void require_outputs(const Program& program) {
  if (std::ranges::none_of(program.definitions, &Definition::output))
    throw TypeError(fmt::format("{} has no outputs: write `output` in the place of `let` before what is to be computed",
                                program.name));
}

Program as_chosen(Program program, const ProgramChoice& choice) {
  program = in_precision(std::move(program), choice.precision);
  if (choice.dtype.empty()) return program;
  return with_dtype(std::move(program), choice.dtype == "f64" ? DType::f64 : DType::f32);
}

std::vector<std::string> chosen_outputs(const Program& program, const std::vector<std::string>& names) {
  const bool all = names == std::vector<std::string>{"all"} && !program.find_definition("all");
  return all ? real_outputs(program) : names;
}

void add_gradient_options(OptionParser& parser, std::vector<std::string>& grad, std::vector<std::string>& wrt) {
  parser
      .add_option(
          "--grad", grad,
          "also give gradients (grad.x) of these outputs y1,y2, or of `all`; their cotangents cot.y are inputs, or "
          "ones where they are missing")
      .comma_separated();
  parser
      .add_option("--wrt", wrt,
                  "the inputs x1,x2 to differentiate with respect to; all differentiable ones if not given")
      .comma_separated();
}

void add_derivative_options(OptionParser& parser, DerivativeChoice& choice) {
  add_gradient_options(parser, choice.grad, choice.wrt);
  parser
      .add_option("--tangent", choice.tangent,
                  "also give tangents (tan.y) of these outputs, by forward mode, where inputs x change by tan.x, or by "
                  "ones")
      .comma_separated();
  parser
      .add_option("--hvp", choice.hvp,
                  "also give gradients of these outputs and their products (hvp.x) with the Hessian, for tan.x and "
                  "cot.y as inputs, or ones")
      .comma_separated();
  parser.add_option("--jacobian", choice.jacobian, "also give all derivatives (jac.y.x) of these outputs")
      .comma_separated();
  parser.add_option("--mode", choice.mode, "of --jacobian: auto takes the one with fewer elements")
      .one_of({"auto", "forward", "reverse"})
      .show_default();
}

namespace {

/// The inputs that derivatives are taken with respect to; none stands for all.
std::vector<std::string> inputs_of_choice(const Program& program, const std::string& source,
                                          const std::vector<std::string>& wrt) {
  const Op* op = find_op(source);
  return wrt.empty() && op ? differentiable_inputs(*op, program) : wrt;
}

JacobianMode mode_named(const std::string& name) {
  if (name == "forward") return JacobianMode::Forward;
  return name == "reverse" ? JacobianMode::Reverse : JacobianMode::Automatic;
}

}  // namespace

Program with_gradients(const Program& program, const std::string& source, const std::vector<std::string>& grad,
                       const std::vector<std::string>& wrt) {
  if (grad.empty() && !wrt.empty()) throw UsageError("--wrt needs --grad: name the outputs to differentiate");
  if (grad.empty()) return program;
  return differentiate(program, chosen_outputs(program, grad), inputs_of_choice(program, source, wrt));
}

Program with_derivatives(const Program& program, const std::string& source, const DerivativeChoice& choice,
                         const DimValues& dims) {
  const std::vector<std::string>* const kinds[] = {&choice.grad, &choice.tangent, &choice.hvp, &choice.jacobian};
  const auto count = std::ranges::count_if(kinds, [](const auto* outputs) { return !outputs->empty(); });
  if (count > 1)
    throw UsageError("--grad, --tangent, --hvp and --jacobian exclude each other: ask for one of them at a time");
  if (count == 0 && !choice.wrt.empty())
    throw UsageError("--wrt needs --grad, --tangent, --hvp or --jacobian: name the outputs to differentiate");
  const std::vector<std::string> wrt = inputs_of_choice(program, source, choice.wrt);
  const auto outputs = [&](const std::vector<std::string>& names) { return chosen_outputs(program, names); };
  if (!choice.grad.empty()) return differentiate(program, outputs(choice.grad), wrt);
  if (!choice.tangent.empty()) return tangents(program, outputs(choice.tangent), wrt);
  if (!choice.hvp.empty()) return hessian_products(program, outputs(choice.hvp), wrt);
  if (!choice.jacobian.empty()) return jacobian(program, outputs(choice.jacobian), wrt, mode_named(choice.mode), dims);
  return program;
}

}  // namespace moxie
