// moxie bench: the benchmark cases, as a table or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/session.h"
#include "tools/commands/bench_cases.h"
#include "tools/commands/bench_yardsticks.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

struct BenchOptions {
  std::vector<std::string> cases, dims;
  DeviceChoice device;
  std::string dtype = "f32";
  std::string precision = "strict";
  bool json = false;
};

struct Measurement {
  std::string device;  // that `auto` stands for
  double seconds = 0;  // median of a run
  double compile_s = 0;
  std::int64_t workspace_bytes = 0, input_bytes = 0, output_bytes = 0;
};

struct Result {
  std::string name;
  DimValues dims;
  Measurement forward, forward_backward;
  std::optional<Measurement> step;
  std::optional<double> floor, products;  // seconds: to move the least bytes, for the matrix products alone
};

using Clock = std::chrono::steady_clock;
double seconds_from(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void run_to_end(Session& session) {
  session.run();
  session.wait();
}

/// Of at least 21 runs, and of more while they are short.
double median_seconds(Session& session) {
  constexpr int kWarmUp = 5;
  constexpr std::size_t kFewest = 21, kMost = 2001;
  constexpr double kEnough = 1.0;
  for (int i = 0; i < kWarmUp; ++i) run_to_end(session);
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < kFewest || (times.size() < kMost && seconds_from(begin) < kEnough)) {
    const auto start = Clock::now();
    run_to_end(session);
    times.push_back(seconds_from(start));
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

std::int64_t bytes_of(const Program& program, const std::string& tensor, const DimValues& dims) {
  return element_count(extents_of(program, tensor, dims)) *
         static_cast<std::int64_t>(size_of(program.dtype_of(tensor)));
}

Measurement measure(const Program& program, const BenchPrograms& made, const DimValues& given,
                    const BenchOptions& options) {
  const DimValues dims = choose_dims(program, given);
  DeviceChoice device = options.device;
  device.cache_directory = "0";  // so that compiling is measured too
  const auto start = Clock::now();
  const auto opened = open_chosen_device(device);
  Session session(program, dims, opened);
  Measurement measured;
  measured.device = opened->name();
  for (const InputDecl& input : session.plan().program.inputs) {
    session.set(input.name,
                make_host_tensor(input.dtype, extents_of(program, input.name, dims), made.inputs.at(input.name)));
    measured.input_bytes += bytes_of(program, input.name, dims);
  }
  run_to_end(session);
  const double first = seconds_from(start);
  for (const auto& [output, input] : made.feedback) {
    if (program.find_definition(output)) session.feed_back(output, input);
  }
  measured.seconds = median_seconds(session);
  measured.compile_s = first - measured.seconds;
  measured.workspace_bytes = session.workspace_bytes();
  for (const Definition& definition : program.definitions) {
    if (definition.output) measured.output_bytes += bytes_of(program, definition.name, dims);
  }
  return measured;
}

/// The time of the case's matrix products alone.
double products_seconds(const Program& program, const DimValues& given, const BenchOptions& options) {
  const Program specialised = specialise(program, choose_dims(program, given));
  const Program alone = products_alone(make_plan(specialised), given);
  BenchPrograms made{alone, alone, {}, {}, sample_inputs(alone, {}, 1)};
  return measure(alone, made, {}, options).seconds;
}

int threads_of(const BenchOptions& options) {
  return options.device.threads > 0 ? options.device.threads
                                    : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void measure_yardsticks(const BenchCase& bench, const Program& program, const BenchOptions& options, Result& result) {
  if (bench.least_bytes)
    result.floor = static_cast<double>(bench.least_bytes(result.dims)) / copy_bandwidth(threads_of(options));
  if (bench.has_products) result.products = products_seconds(program, result.dims, options);
}

Result run_case(const BenchCase& bench, const BenchOptions& options) {
  Result result{std::string(bench.name), {}, {}, {}, {}, {}, {}};
  for (const auto& [name, value] : bench.dims) result.dims[std::string(name)] = value;
  Program known;
  for (const auto& [name, value] : bench.dims) known.dims.push_back({std::string(name), value, false});
  known.name = bench.name;
  for (const auto& [name, value] : parse_dims(options.dims, known)) result.dims[name] = value;
  const BenchPrograms made = bench.make(bench, result.dims);
  const ProgramChoice choice{"", {}, options.dtype, options.precision};
  result.forward_backward = measure(as_chosen(made.forward_backward, choice), made, result.dims, options);
  result.forward = measure(as_chosen(made.forward, choice), made, result.dims, options);
  if (made.step) result.step = measure(as_chosen(*made.step, choice), made, result.dims, options);
  measure_yardsticks(bench, as_chosen(made.forward_backward, choice), options, result);
  return result;
}

nlohmann::json as_json(const Result& result, const BenchOptions& options, int threads) {
  const Measurement& largest = result.step ? *result.step : result.forward_backward;
  nlohmann::json entry = {{"case", result.name},
                          {"device", largest.device},
                          {"dtype", options.dtype},
                          {"precision", options.precision},
                          {"threads", threads},
                          {"tuned", options.device.tune},
                          {"dims", result.dims},
                          {"forward_s", result.forward.seconds},
                          {"forward_backward_s", result.forward_backward.seconds},
                          {"compile_s", result.forward_backward.compile_s},
                          {"peak_bytes", largest.workspace_bytes + largest.output_bytes},
                          {"workspace_bytes", largest.workspace_bytes},
                          {"input_bytes", largest.input_bytes}};
  if (result.step) entry.update({{"step_s", result.step->seconds}, {"step_compile_s", result.step->compile_s}});
  if (result.floor) entry["floor_s"] = *result.floor;
  if (result.products) entry["products_s"] = *result.products;
  return entry;
}

void print_row(const Result& result) {
  const Measurement& largest = result.step ? *result.step : result.forward_backward;
  std::string dims;
  for (const auto& [name, value] : result.dims) dims += fmt::format("{}{}={}", dims.empty() ? "" : " ", name, value);
  fmt::print("{:32}{:22}{:>10.3f}{:>10.3f}{:>10}{:>10.0f}{:>12.1f}{:>12.1f}\n", result.name, dims,
             result.forward.seconds * 1e3, result.forward_backward.seconds * 1e3,
             result.step ? fmt::format("{:.3f}", result.step->seconds * 1e3) : "-",
             result.forward_backward.compile_s * 1e3, static_cast<double>(largest.workspace_bytes) / 1024,
             static_cast<double>(largest.input_bytes) / 1024);
  if (result.floor)
    fmt::print(
        "  forward, then backward alone at least {:.3f} ms of moving bytes; both in one take {:.2f} times as long\n",
        *result.floor * 1e3, result.forward_backward.seconds / *result.floor);
  if (result.products)
    fmt::print("  matrix products alone {:.3f} ms; outside of them {:.1f} % of the time\n", *result.products * 1e3,
               100 * (1 - *result.products / result.forward_backward.seconds));
  std::fflush(stdout);
}

int bench(const BenchOptions& options) {
  std::vector<const BenchCase*> chosen;
  for (const std::string& name : options.cases) chosen.push_back(&find_bench_case(name));
  if (chosen.empty()) {
    for (const BenchCase& known : bench_cases()) chosen.push_back(&known);
  }
  const int threads = threads_of(options);
  if (!options.json) {
    fmt::print("device {}, {}, {} precision, {} thread{}; milliseconds (medians), KiB\n", options.device.name,
               options.dtype, options.precision, threads, threads == 1 ? "" : "s");
    fmt::print("{:32}{:22}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}\n", "case", "dims", "forward", "+backward", "step",
               "compile", "workspace", "inputs");
  }
  nlohmann::json results = nlohmann::json::array();
  for (const BenchCase* known : chosen) {
    const Result result = run_case(*known, options);
    if (options.json)
      results.push_back(as_json(result, options, threads));
    else
      print_row(result);
  }
  if (options.json) fmt::print("{}\n", results.dump(1));
  return 0;
}

std::string case_list() {
  std::string text = "the cases to measure, all if not given:";
  for (const BenchCase& known : bench_cases()) text += fmt::format("\n  {}: {}", known.name, known.summary);
  return text;
}

}  // namespace

Work add_bench(OptionParser& parser) {
  auto options = std::make_shared<BenchOptions>();
  options->device.threads = 1;
  parser.add_option("case", options->cases, case_list());
  parser.add_option("--dims,--dim", options->dims, "other extents, such as S=64,N=512").comma_separated();
  parser.add_option("--dtype", options->dtype, "f32 or f64").one_of({"f32", "f64"}).show_default();
  add_precision_option(parser, options->precision);
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  add_tune_option(parser, options->device);
  parser.add_flag("--json", options->json, "a list of results as JSON, in seconds and bytes");
  return [options] { return bench(*options); };
}

}  // namespace moxie
