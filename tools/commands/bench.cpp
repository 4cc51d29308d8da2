// moxie bench: times of the benchmark cases and of any formula, as a table or JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "ops/catalogue.h"
#include "ops/formula_file.h"
#include "runtime/plan.h"
#include "tools/commands/bench_cases.h"
#include "tools/commands/bench_formulas.h"
#include "tools/commands/bench_measure.h"
#include "tools/commands/bench_yardsticks.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

struct BenchOptions {
  std::vector<std::string> names, dims, grad, wrt, folders;
  DeviceChoice device;
  std::string input, dtype, precision;
  bool json = false;
};

struct Result {
  BenchSubject subject;
  Measurement forward;
  std::optional<Measurement> forward_backward, step;
  std::optional<double> floor, products;  // seconds: to move the least bytes, for the matrix products alone

  const Measurement& gradients() const { return forward_backward ? *forward_backward : forward; }
  const Measurement& largest() const { return step ? *step : gradients(); }
  const Program& program() const { return subject.programs.forward; }
};

int threads_of(const BenchOptions& options) {
  return options.device.threads > 0 ? options.device.threads
                                    : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// In single and strict precision unless the options say otherwise.
BenchSubject case_subject(const BenchCase& bench, const BenchOptions& options) {
  if (!options.grad.empty() || !options.wrt.empty() || !options.input.empty())
    throw UsageError(fmt::format(
        "--grad, --wrt and --in are options of formulas; the case {} has gradients and inputs of its own", bench.name));
  BenchSubject subject{std::string(bench.name), {}, {}, bench.outputs, bench.wrt, {}, &bench};
  Program known;
  known.name = bench.name;
  for (const auto& [name, value] : bench.dims) known.dims.push_back({std::string(name), value, false});
  subject.dims = parse_dims(options.dims, known);
  for (const auto& [name, value] : bench.dims) subject.dims.emplace(name, value);
  subject.programs = bench.make(bench, subject.dims);
  const ProgramChoice choice{
      "", {}, options.dtype.empty() ? "f32" : options.dtype, options.precision.empty() ? "strict" : options.precision};
  BenchPrograms& programs = subject.programs;
  programs.forward = as_chosen(programs.forward, choice);
  for (std::optional<Program>* program : {&programs.forward_backward, &programs.step}) {
    if (*program) *program = as_chosen(**program, choice);
  }
  return subject;
}

/// A case goes before an operation of the same name.
BenchSubject find_subject(const std::string& name, const BenchOptions& options) {
  if (const BenchCase* bench = find_bench_case(name)) return case_subject(*bench, options);
  if (is_file_name(name) || find_op(name))
    return bench_formula({name, options.dims, options.dtype, options.precision, options.folders}, options.input,
                         options.grad, options.wrt);
  std::vector<std::string_view> names;
  for (const BenchCase& bench : bench_cases()) names.push_back(bench.name);
  throw UsageError(
      fmt::format("'{}' is no benchmark case, no built-in formula (`moxie ops` lists them) and no .mox file; the cases "
                  "are {}",
                  name, fmt::join(names, ", ")));
}

/// The time of the matrix products alone.
double products_seconds(const Program& program, const DimValues& given, const BenchOptions& options) {
  const Program specialised = specialise(program, choose_dims(program, given));
  const Program alone = products_alone(make_plan(specialised), given);
  return measure(alone, {{}, {sample_inputs(alone, {}, 1)}}, options.device).seconds;
}

void measure_yardsticks(const BenchCase& bench, const BenchOptions& options, Result& result) {
  const DimValues& dims = result.subject.dims;
  if (bench.least_bytes)
    result.floor = static_cast<double>(bench.least_bytes(dims)) / copy_bandwidth(threads_of(options));
  if (bench.has_products) result.products = products_seconds(*result.subject.programs.forward_backward, dims, options);
}

/// All programs of a subject are measured with the same inputs: those that its largest takes.
Result run_subject(const BenchSubject& subject, const BenchOptions& options) {
  Result result{subject, {}, {}, {}, {}, {}};
  const BenchPrograms& programs = subject.programs;
  Workload workload{subject.dims, programs.inputs, programs.feedback};
  const auto measure_one = [&](const Program& program) {
    Measurement measured = measure(program, workload, options.device);
    workload.inputs = {workload.inputs[measured.inputs]};
    return measured;
  };
  if (programs.step) result.step = measure_one(*programs.step);
  if (programs.forward_backward) result.forward_backward = measure_one(*programs.forward_backward);
  result.forward = measure_one(programs.forward);
  if (subject.bench) measure_yardsticks(*subject.bench, options, result);
  return result;
}

nlohmann::json as_json(const Result& result, const BenchOptions& options, int threads) {
  const Measurement& largest = result.largest();
  nlohmann::json entry = {{"case", result.subject.name},
                          {"device", largest.device},
                          {"dtype", to_string(result.program().default_dtype)},
                          {"precision", to_string(result.program().precision)},
                          {"threads", threads},
                          {"tuned", options.device.tune},
                          {"dims", result.subject.dims},
                          {"grad", result.subject.outputs},
                          {"wrt", result.subject.wrt},
                          {"forward_s", result.forward.seconds},
                          {"forward_cpu_s", result.forward.cpu_seconds},
                          {"forward_backward_s", nullptr},
                          {"forward_backward_cpu_s", nullptr},
                          {"compile_s", result.gradients().compile_s},
                          {"compile_cpu_s", result.gradients().compile_cpu_s},
                          {"forward_launches", result.forward.launches},
                          {"forward_backward_launches", nullptr},
                          {"finite", largest.finite},
                          {"peak_bytes", largest.workspace_bytes + largest.output_bytes},
                          {"workspace_bytes", largest.workspace_bytes},
                          {"input_bytes", largest.input_bytes}};
  if (result.forward_backward)
    entry.update({{"forward_backward_s", result.forward_backward->seconds},
                  {"forward_backward_cpu_s", result.forward_backward->cpu_seconds},
                  {"forward_backward_launches", result.forward_backward->launches}});
  else
    entry["no_gradient"] = result.subject.no_gradient;
  if (result.step) entry.update({{"step_s", result.step->seconds}, {"step_compile_s", result.step->compile_s}});
  if (result.floor) entry["floor_s"] = *result.floor;
  if (result.products) entry["products_s"] = *result.products;
  return entry;
}

std::string milliseconds(const std::optional<Measurement>& measured) {
  return measured ? fmt::format("{:.3f}", measured->seconds * 1e3) : "-";
}

std::string launches(const Result& result) {
  std::string text = std::to_string(result.forward.launches);
  if (result.forward_backward) text += fmt::format("/{}", result.forward_backward->launches);
  return text;
}

void print_notes(const Result& result) {
  if (!result.subject.no_gradient.empty()) fmt::print("  no gradient: {}\n", result.subject.no_gradient);
  if (!result.largest().finite)
    fmt::print("  some outputs are infinite or NaN with the made-up inputs; declared signs (>= 0, > 0) guide them\n");
  if (result.floor)
    fmt::print(
        "  forward, then backward alone at least {:.3f} ms of moving bytes; both in one take {:.2f} times as long\n",
        *result.floor * 1e3, result.forward_backward->seconds / *result.floor);
  if (result.products)
    fmt::print("  matrix products alone {:.3f} ms; outside of them {:.1f} % of the time\n", *result.products * 1e3,
               100 * (1 - *result.products / result.forward_backward->seconds));
}

void print_row(const Result& result) {
  const Measurement& largest = result.largest();
  std::vector<std::string> dims;
  for (const auto& [name, value] : result.subject.dims) dims.push_back(fmt::format("{}={}", name, value));
  fmt::print("{:31} {:37} {:6} {:>10} {:>10} {:>9} {:>9.0f} {:>9} {:>11.1f} {:>11.1f}\n", result.subject.name,
             fmt::to_string(fmt::join(dims, " ")), to_string(result.program().default_dtype),
             milliseconds(result.forward), milliseconds(result.forward_backward), milliseconds(result.step),
             result.gradients().compile_s * 1e3, launches(result), static_cast<double>(largest.workspace_bytes) / 1024,
             static_cast<double>(largest.input_bytes) / 1024);
  print_notes(result);
  std::fflush(stdout);
}

void print_header(const BenchOptions& options, int threads) {
  fmt::print("device {}{}, {} thread{}; milliseconds (medians), KiB\n", options.device.name,
             options.precision.empty() ? "" : fmt::format(", {} precision", options.precision), threads,
             threads == 1 ? "" : "s");
  fmt::print("{:31} {:37} {:6} {:>10} {:>10} {:>9} {:>9} {:>9} {:>11} {:>11}\n", "case", "dims", "dtype", "forward",
             "+backward", "step", "compile", "launches", "workspace", "inputs");
}

int bench(const BenchOptions& options) {
  std::vector<std::string> names = options.names;
  if (names.empty()) {
    for (const BenchCase& known : bench_cases()) names.emplace_back(known.name);
  }
  const int threads = threads_of(options);
  nlohmann::json results = nlohmann::json::array();
  for (const std::string& name : names) {
    const BenchSubject subject = find_subject(name, options);
    if (!options.json && name == names.front()) print_header(options, threads);
    const Result result = run_subject(subject, options);
    if (options.json)
      results.push_back(as_json(result, options, threads));
    else
      print_row(result);
  }
  if (options.json) fmt::print("{}\n", results.dump(1));
  return 0;
}

std::string case_list() {
  std::string text =
      "what to measure: .mox files, built-in formulas (see `moxie ops`), benchmark cases; all cases if not given, "
      "which are:";
  for (const BenchCase& known : bench_cases()) text += fmt::format("\n  {}: {}", known.name, known.summary);
  return text;
}

}  // namespace

Work add_bench(OptionParser& parser) {
  auto options = std::make_shared<BenchOptions>();
  options->device.threads = 1;
  parser.add_option("case", options->names, case_list());
  parser
      .add_option("--dims,--dim", options->dims,
                  "extents, such as S=64,N=512; a formula needs all that its text leaves open")
      .comma_separated();
  parser.add_option("--grad", options->grad, "of a formula, the outputs y1,y2 to differentiate, or `all` (the default)")
      .comma_separated();
  parser
      .add_option(
          "--wrt", options->wrt,
          "of a formula, the inputs x1,x2 to differentiate with respect to; all differentiable ones if not given")
      .comma_separated();
  parser.add_option("--in", options->input,
                    "the inputs of a formula by name, FILE.safetensors or FILE.npz; made up within the declared "
                    "domains if not given");
  parser
      .add_option("--dtype", options->dtype, "the default dtype of the formula: f32 or f64; f32 for cases if not given")
      .one_of({"f32", "f64"});
  add_precision_option(parser, options->precision);
  add_include_option(parser, options->folders);
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  add_tune_option(parser, options->device);
  parser.add_flag("--json", options->json, "a list of results as JSON, in seconds and bytes");
  return [options] { return bench(*options); };
}

}  // namespace moxie
