// moxie check: devices against the definition of the language, gradients against finite differences.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/diff/active_tensors.h"
#include "compiler/expression/functions.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "ops/catalogue.h"
#include "ops/formula_file.h"
#include "runtime/session.h"
#include "tools/commands/check_sample.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/parsed_source.h"

namespace moxie {
namespace {

struct CheckOptions {
  ProgramChoice program;
  DeviceChoice device;
  std::vector<std::string> wrt;
  std::uint64_t seed = 1;
  std::size_t elements = 24;
};

/// What a tensor is compared with, and how much it may differ: |got - want| <= tolerance * (max|want| + 1), and as much
/// more as the formula makes of rounded inputs.
struct Candidate {
  const char* column;
  const char* device;
  DType dtype;
  double tolerance;
};
constexpr std::array kCandidates = {
    Candidate{"interp", "interp", DType::f64, 1e-9},    Candidate{"cpu f64", "cpu", DType::f64, 1e-9},
    Candidate{"cpu f32", "cpu", DType::f32, 2e-3},      Candidate{"emu f64", "cuda-emu", DType::f64, 1e-9},
    Candidate{"emu f32", "cuda-emu", DType::f32, 2e-3}, Candidate{"cuda f64", "cuda", DType::f64, 1e-9},
    Candidate{"cuda f32", "cuda", DType::f32, 2e-3},
};
constexpr double kDifferenceTolerance = 1e-6;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Largest |got - want|, and NaN where one of them is.
double worst(std::span<const double> got, std::span<const double> want) {
  double result = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (!(error <= result)) result = error;
  }
  return result;
}

/// Errors of one tensor by column; outputs have no differences.
struct Row {
  double scale = 0;        // max |value|
  double sensitivity = 0;  // what relative errors of inputs are multiplied with
  bool single = false;     // in single precision or computed from what is, whatever the default dtype
  std::vector<double> errors;
  // Of a gradient: elements to compare with differences, those compared, those whose differences contradict each other.
  std::size_t asked = 0, compared = 0, uncertain = 0;
  const char* held = nullptr;  // what keeps a gradient from being that of the values
};
using ErrorTable = std::map<std::string, Row>;

/// A candidate whose device this machine has.
struct DeviceColumn {
  Candidate candidate;
  std::shared_ptr<Device> device;
};

/// A number of the formula or one of its values that single precision has no finite number for.
std::optional<double> beyond_single(const Sample& sample) {
  std::optional<double> found;
  const auto look_at = [&](double x) {
    if (std::isfinite(x) && std::abs(x) > std::numeric_limits<float>::max()) found = x;
  };
  for (const Definition& definition : sample.program.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Constant) look_at(e->value);
    });
  }
  for (const auto& [name, values] : sample.wanted) std::ranges::for_each(values, look_at);
  return found;
}

/// The first device is the reference, without which nothing can be said; of any other it is said why it is missing.
/// Single precision is left out where the formula overflows it.
std::vector<DeviceColumn> open_columns(const DeviceChoice& choice, const Sample& sample) {
  std::vector<DeviceColumn> columns;
  std::string missing;
  const auto large = beyond_single(sample);
  if (large) fmt::print("without f32: {} has the number {:g}, which overflows there\n", sample.program.name, *large);
  for (const Candidate& candidate : kCandidates) {
    if (candidate.device == missing || (large && candidate.dtype == DType::f32)) continue;
    try {
      columns.push_back({candidate, open_chosen_device({candidate.device, choice.threads})});
    } catch (const DeviceError& error) {
      if (columns.empty()) throw;
      missing = candidate.device;
      fmt::print("without {}: {}\n", missing, first_line(error.what()));
    }
  }
  return columns;
}

void run_column(const Sample& sample, const DeviceColumn& column, ErrorTable& table) {
  Session session(gradient_in(sample, column.candidate.dtype), sample.dims, column.device);
  for (const InputDecl& input : session.program().inputs) {
    session.set(input.name, make_host_tensor(input.dtype, extents_of(sample.gradient, input.name, sample.dims),
                                             sample.inputs.at(input.name)));
  }
  session.run();
  for (const std::string& name : outputs_of(sample.gradient)) {
    table[name].errors.push_back(worst(to_doubles(session.get(name)), sample.wanted.at(name)));
  }
}

bool reads_one_of(const Expr& expr, const std::set<std::string>& tensors) {
  bool reads = false;
  visit(expr, [&](const Expr& e) { reads |= e->kind == NodeKind::Access && tensors.contains(e->tensor); });
  return reads;
}

/// What keeps the gradient of an input from being that of the values, if anything does: a slope that is declared of
/// what depends on it, or that this is held constant.
const char* held_by(const Program& program, const std::string& input) {
  const std::set<std::string> reached = reached_from(program, {input});
  const char* held = nullptr;
  for (const Definition& definition : program.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (e->kind != NodeKind::Call) return;
      const std::string_view name = e->function->name;
      if (name == "with_slope" && reads_one_of(e->args[1], reached)) held = "a declared derivative stands for them";
      if (name == "stop_gradient" && !held && reads_one_of(e->args[0], reached))
        held = "stop_gradient holds what depends on it constant";
    });
  }
  return held;
}

/// The worst error among some elements of each gradient. Where the differences are uncertain, at kinks and jumps, an
/// error is what exceeds the uncertainty.
void run_differences(const CheckOptions& options, const Sample& sample, ErrorTable& table) {
  for (const std::string& name : sample.wrt) {
    Row& row = table["grad." + name];
    row.held = held_by(sample.program, name);
    if (row.held) continue;
    row.asked = std::min(options.elements, sample.inputs.at(name).size());
    double error = 0;
    for (const auto& [slope, gradient] : finite_differences(sample, name, options.elements, options.seed)) {
      const bool uncertain = !(slope.uncertainty <= kDifferenceTolerance * (row.scale + 1));
      const double distance = std::abs(slope.value - gradient);
      const double difference = uncertain ? std::max(distance - 2 * slope.uncertainty, 0.0) : distance;
      if (!(difference <= error)) error = difference;
      ++row.compared;
      row.uncertain += uncertain;
    }
    row.errors.push_back(error);
  }
}

/// The tensors that the formula itself has in single precision, and all that is computed from them.
std::set<std::string> single_tensors(const Program& program) {
  std::set<std::string> single;
  for (const Definition& definition : program.definitions) {
    bool rounds = definition.dtype == DType::f32;
    visit(definition.body, [&](const Expr& e) { rounds |= e->kind == NodeKind::Call && e->function->name == "f32"; });
    if (rounds) single.insert(definition.name);
  }
  return reached_from(program, std::move(single));
}

/// How much a tensor may differ on a device.
double tolerance_of(const Row& row, const Candidate& candidate) {
  constexpr double kRoundings = 16, kSingleTolerance = 4e-6;  // of what is in single precision in a formula in double
  const bool single = row.single || candidate.dtype == DType::f32;
  const double rounding = single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const double base = row.single ? std::max(candidate.tolerance, kSingleTolerance) : candidate.tolerance;
  return base * (row.scale + 1) + kRoundings * rounding * row.sensitivity;
}

/// Prints the table; gives whether every error is within its tolerance.
bool report(const Sample& sample, const std::vector<DeviceColumn>& columns, const ErrorTable& table) {
  fmt::print("{} with{}", sample.program.name, sample.dims.empty() ? " no dims" : "");
  for (const auto& [name, value] : sample.dims) fmt::print(" {}={}", name, value);
  fmt::print("; largest differences by tensor\n{:24}{:>12}", "tensor", "max |value|");
  std::vector<double> tolerances;
  for (const DeviceColumn& column : columns) {
    fmt::print("{:>12}", column.candidate.column);
    tolerances.push_back(column.candidate.tolerance);
  }
  fmt::print("{:>14}\n", "differences");
  tolerances.push_back(kDifferenceTolerance);
  bool good = true;
  for (const auto& [name, row] : table) {
    fmt::print("{:24}{:12.4g}", name, row.scale);
    bool within = true;
    for (std::size_t i = 0; i < row.errors.size(); ++i) {
      fmt::print("{:{}.2g}", without_nan_sign(row.errors[i]), i == columns.size() ? 14 : 12);
      const double tolerance =
          i == columns.size() ? kDifferenceTolerance * (row.scale + 1) : tolerance_of(row, columns[i].candidate);
      within = within && row.errors[i] <= tolerance;
    }
    if (row.held) fmt::print("  no differences: {}", row.held);
    if (row.compared < row.asked)
      fmt::print("  {} of {} differences, which take long; choose smaller dims", row.compared, row.asked);
    if (row.uncertain > 0) fmt::print("  {} of {} at kinks or uncertain", row.uncertain, row.compared);
    fmt::print("{}\n", within ? "" : "  beyond tolerance");
    good = good && within;
  }
  fmt::print("tolerances: ");
  for (std::size_t i = 0; i < tolerances.size(); ++i) {
    fmt::print("{}{} {:g}", i ? ", " : "", i == columns.size() ? "differences" : columns[i].candidate.column,
               tolerances[i]);
  }
  fmt::print(", each times (max |value| + 1), and what the formula makes of rounded inputs\n");
  return good;
}

/// Whether the reductions of a text are what their authors say; prints the first law that one breaks.
bool check_laws(const std::vector<Monoid>& reductions, std::uint64_t seed) {
  bool good = true;
  for (const Monoid& reduction : reductions) {
    if (const std::optional<BrokenLaw> broken = broken_law(reduction, seed)) {
      fmt::print("reduction {}: {}, for {}: {}\n", reduction.name, broken->law, broken->states, broken->difference);
      good = false;
      continue;
    }
    fmt::print("reduction {}: the identity is neutral and combine associative within {:g} on {} random states\n",
               reduction.name, kLawTolerance, kLawSamples);
  }
  return good;
}

int check(const CheckOptions& options) {
  const auto [program, reductions] = load_parsed(options.program);
  require_outputs(program);
  const bool keeps_laws = check_laws(reductions, options.seed);
  const Op* op = find_op(options.program.source);
  std::vector<std::string> wrt = options.wrt;
  if (wrt.empty() && op) wrt = differentiable_inputs(*op, program);
  const Sample sample = make_sample(program, parse_dims(options.program.dims, program), wrt, options.seed);
  const auto sensitivity = sensitivities(sample);
  const auto single = single_tensors(sample.gradient);
  ErrorTable table;
  for (const std::string& name : outputs_of(sample.gradient)) {
    for (const double value : sample.wanted.at(name)) table[name].scale = std::max(table[name].scale, std::abs(value));
    table[name].sensitivity = sensitivity.at(name);
    table[name].single = single.contains(name);
  }
  const auto columns = open_columns(options.device, sample);
  for (const DeviceColumn& column : columns) run_column(sample, column, table);
  run_differences(options, sample, table);
  return report(sample, columns, table) && keeps_laws ? 0 : 1;
}

}  // namespace

Work add_check(OptionParser& parser) {
  auto options = std::make_shared<CheckOptions>();
  add_program_options(parser, options->program);
  parser
      .add_option("--wrt", options->wrt,
                  "the inputs to differentiate with respect to; all differentiable ones if not given")
      .comma_separated();
  parser.add_option("--seed", options->seed, "the seed of the random inputs")
      .in_range(0, kMaxRandomState)
      .show_default();
  parser
      .add_option("--elements", options->elements,
                  "how many elements of each gradient are compared with finite differences")
      .in_range(1, 1000000)
      .show_default();
  add_threads_option(parser, options->device);
  return [options] { return check(*options); };
}

}  // namespace moxie
