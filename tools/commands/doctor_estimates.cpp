#include "tools/commands/doctor_estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/host_memory.h"
#include "runtime/session.h"
#include "tools/commands/sample_inputs.h"
#include "tools/commands/thread_clock.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

/// A launch takes long enough to be measured, and short enough that hundreds of kernels can be.
constexpr double kMaxSeconds = 0.05;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 25;  // of one tensor
/// Launches in one sample: what takes no time by the clock would have infinitely many.
constexpr double kMostLaunches = 1e6;
constexpr double kSampleSeconds = 3e-5, kEnoughSeconds = 0.005;
constexpr int kSamples = 4, kMaxSamples = 50;

/// Files of folders, and everything else as it was named.
std::vector<std::string> expand(const std::vector<std::string>& sources) {
  std::vector<std::string> files;
  for (const std::string& source : sources) {
    if (!std::filesystem::is_directory(source)) {
      files.push_back(source);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(source)) {
      if (entry.path().extension() == ".mox") found.push_back(entry.path().string());
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

DimValues open_dims(const Program& program, std::int64_t extent) {
  DimValues dims;
  for (const DimDecl& dim : program.dims) dims[dim.name] = dim.value.value_or(extent);
  return dims;
}

bool fits(const Program& program, const DimValues& dims) {
  const auto small = [&](const std::string& tensor) {
    double elements = 1;
    for (const std::int64_t extent : extents_of(program, tensor, dims)) elements *= static_cast<double>(extent);
    return elements <= static_cast<double>(kMaxElements);
  };
  return std::ranges::all_of(program.inputs, [&](const InputDecl& input) { return small(input.name); }) &&
         std::ranges::all_of(program.definitions, [&](const Definition& d) { return !d.output || small(d.name); });
}

Program with_all_gradients(const Program& program, const std::string& source) {
  std::vector<std::string> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  return with_gradients(program, source, outputs, {});
}

std::vector<const LoweredKernel*> all_kernels(const Plan& plan) {
  std::vector<const LoweredKernel*> kernels;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) kernels.push_back(kernel);
  }
  return kernels;
}

/// Those of the first step of a scan and of the first slices, too.
DimValues of_first_launch(const Plan& plan, DimValues dims) {
  dims.emplace(kScanStep, 0);
  return with_slice_dims(plan, std::move(dims));
}

/// Measures each kernel before it is launched, with the buffers of the launch: alone, again and again, so that its data
/// lie in the caches as far as they fit. A kernel may run any number of times: nothing that it reads lies where it
/// writes.
class KernelTimer : public LaunchObserver {
 public:
  void before(const LoweredKernel& kernel, const Plan&, std::span<void* const> buffers,
              std::span<const std::int64_t> arguments) override {
    if (least_.contains(&kernel)) return;
    const CpuKernel::Ptr code = CpuKernel::build(kernel.program, host_machine(), nullptr);
    const std::size_t stride = kernel.program.arguments.size();
    const HostMemory scratch =
        allocate_zeros(static_cast<std::size_t>(code->scratch_bytes(arguments.subspan(0, stride))));
    const auto launch = [&] {
      for (std::size_t first = 0; first < arguments.size(); first += stride) {
        KernelStatus status;
        code->run(buffers.data(), arguments.data() + first, scratch.get(), &status);
      }
    };
    least_[&kernel] = least_seconds(launch);
  }
  void after(const LoweredKernel&) override {}
  std::optional<double> seconds(const LoweredKernel& kernel) const {
    const auto known = least_.find(&kernel);
    return known == least_.end() ? std::nullopt : std::optional(known->second);
  }

 private:
  /// Of the processor, which other programs do not change much. Reading its clock takes a fraction of a microsecond.
  template <class Launch>
  static double least_seconds(const Launch& launch) {
    launch();
    int launches = 1;
    double least = std::numeric_limits<double>::infinity(), total = 0;
    for (int sample = 0; sample < kSamples || (total < kEnoughSeconds && sample < kMaxSamples); ++sample) {
      const double start = thread_seconds();
      for (int k = 0; k < launches; ++k) launch();
      const double taken = thread_seconds() - start;
      total += taken;
      least = std::min(least, taken / launches);
      if (taken < kSampleSeconds)
        launches = static_cast<int>(std::min(std::ceil(kSampleSeconds / least), kMostLaunches));
    }
    return least;
  }

  std::map<const LoweredKernel*, double> least_;
};

void measure(const Program& program, const std::string& source, std::int64_t extent, const Machine& machine,
             std::vector<EstimatedKernel>& out) {
  const DimValues dims = open_dims(program, extent);
  if (!fits(program, dims)) return;
  const Program specialised = specialise(program, dims);
  const Plan plan = make_plan(specialised, {}, {.machine = &machine, .extents = dims});
  double total = 0;
  for (const LoweredKernel* kernel : all_kernels(plan))
    total += estimate(*kernel, of_first_launch(plan, dims), machine).seconds;
  if (total > kMaxSeconds) return;
  const auto timer = std::make_shared<KernelTimer>();
  DeviceOptions options;
  options.threads = 1;
  options.observer = timer;
  Session session(program, dims, open_device("cpu", options));
  for (const auto& [name, values] : sample_inputs(program, dims, 1))
    session.set(name, make_host_tensor(program.dtype_of(name), extents_of(program, name, dims), values));
  session.run();
  for (const LoweredKernel* kernel : all_kernels(session.plan())) {
    const std::optional<double> measured = timer->seconds(*kernel);
    if (!measured) continue;
    const Cost cost = estimate(*kernel, of_first_launch(session.plan(), dims), machine);
    out.push_back({source, kernel->program.name, extent, cost, *measured});
  }
}

/// Ranks from 0; equal values share the average of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t k) { return values[k]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t k = begin; k < end; ++k) result[order[k]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return result;
}

/// What a measurement includes: partial results are added outside of the launch.
double estimated(const EstimatedKernel& kernel) { return kernel.cost.seconds - kernel.cost.combine; }

double ratio(const EstimatedKernel& kernel) { return estimated(kernel) / kernel.measured; }

}  // namespace

std::vector<EstimatedKernel> compare_estimates(const EstimateOptions& options, const Machine& machine) {
  std::vector<EstimatedKernel> kernels;
  for (const std::string& source : expand(options.sources)) {
    for (const std::int64_t extent : options.extents) {
      try {
        Program program = load_program({source, {}, "", ""});
        if (options.gradients) program = with_all_gradients(program, source);
        measure(program, source, extent, machine, kernels);
      } catch (const Error& error) {
        fmt::print(stderr, "{} at {}: {}\n", source, extent, error.what());
      }
    }
  }
  return kernels;
}

double rank_correlation(const std::vector<EstimatedKernel>& kernels) {
  if (kernels.size() < 2) return 1;
  std::vector<double> x, y;
  for (const EstimatedKernel& kernel : kernels) {
    x.push_back(estimated(kernel));
    y.push_back(kernel.measured);
  }
  x = ranks(x);
  y = ranks(y);
  const double mean = static_cast<double>(kernels.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    xy += (x[k] - mean) * (y[k] - mean);
    xx += (x[k] - mean) * (x[k] - mean);
    yy += (y[k] - mean) * (y[k] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 1;
}

std::string estimates_table(const std::vector<EstimatedKernel>& kernels, const Machine& machine) {
  constexpr std::size_t kWorst = 10;
  std::vector<const EstimatedKernel*> order;
  for (const EstimatedKernel& kernel : kernels) order.push_back(&kernel);
  std::ranges::sort(order, {}, [](const EstimatedKernel* kernel) { return ratio(*kernel); });
  const auto line = [&](const EstimatedKernel& kernel) {
    return fmt::format("{:6.2f} {:32} {:28} {:6} {:11.3f} us  {}\n", ratio(kernel),
                       std::filesystem::path(kernel.formula).filename().string(), kernel.kernel, kernel.extent,
                       kernel.measured * 1e6, describe(kernel.cost, machine));
  };
  std::string text = fmt::format("{:>6} {:32} {:28} {:>6} {:>14}  {}\n", "ratio", "formula", "kernel", "extent",
                                 "measured", "estimated");
  const std::size_t shown = std::min(kWorst, order.size());
  for (std::size_t k = 0; k < shown; ++k) text += line(*order[k]);
  if (order.size() > 2 * kWorst) text += "   ...\n";
  for (std::size_t k = std::max(shown, order.size() - shown); k < order.size(); ++k) text += line(*order[k]);
  return text + fmt::format("rank correlation of estimated and measured seconds: {:.3f}, of {} kernels\n",
                            rank_correlation(kernels), kernels.size());
}

std::string estimates_json(const std::vector<EstimatedKernel>& kernels, const Machine& machine) {
  Json report = {
      {"machine", machine.name}, {"rank_correlation", rank_correlation(kernels)}, {"kernels", Json::array()}};
  for (const EstimatedKernel& kernel : kernels) {
    const Cost& cost = kernel.cost;
    Json entry = {
        {"formula", kernel.formula},     {"kernel", kernel.kernel},     {"extent", kernel.extent},
        {"measured_s", kernel.measured}, {"estimated_s", cost.seconds}, {"compute_s", cost.compute},
        {"latency_s", cost.latency},     {"combine_s", cost.combine},   {"launch_s", cost.launch},
        {"pieces", cost.pieces},         {"lanes", cost.lanes},         {"live_registers", cost.live_registers}};
    for (std::size_t k = 0; k < kOperationClasses; ++k)
      entry["operations"][std::string(to_string(static_cast<OperationClass>(k)))] = cost.operations[k];
    for (std::size_t k = 0; k < machine.levels.size(); ++k)
      entry["traffic"][machine.levels[k].name] = {
          {"bytes", cost.traffic[k].bytes}, {"scattered", cost.traffic[k].scattered}, {"seconds", cost.levels[k]}};
    report["kernels"].push_back(std::move(entry));
  }
  return report.dump(1) + "\n";
}

}  // namespace moxie
