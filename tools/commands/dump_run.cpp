#include "tools/commands/dump_run.h"
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/support/error.h"
#include "runtime/dump/launch_timer.h"
#include "runtime/dump/repro.h"
#include "runtime/session.h"
#include "tools/commands/command.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

/// Random inputs need not lie in a formula's domain: other ones are tried.
constexpr std::uint64_t kMostTrials = 20;
constexpr std::uint64_t kSeeds = 1000;

Session make_session(const Compilation& compilation, const DimValues& dims, std::shared_ptr<LaunchObserver> observer) {
  DeviceOptions options;
  options.observer = std::move(observer);
  return {compilation.task, dims, open_device("cpu", options)};
}

void give_inputs(Session& session, const Program& program, const DimValues& dims, std::uint64_t seed) {
  for (const auto& [name, values] : sample_inputs(program, dims, seed))
    session.set(name, make_host_tensor(program.dtype_of(name), extents_of(program, name, dims), values));
}

/// Runs once, with other inputs after a failure, unless what was wanted is there by then. Throws the last DeviceError.
template <class Done>
void run_once(Session& session, const Program& program, const DimValues& dims, const Done& is_done) {
  for (std::uint64_t trial = 0;; ++trial) {
    try {
      give_inputs(session, program, dims, 1 + kSeeds * trial);
      return session.run();
    } catch (const DeviceError&) {
      if (is_done()) return;
      if (trial + 1 >= kMostTrials) throw;
    }
  }
}

std::vector<std::string> names_of_kernels(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) names.push_back(kernel->program.name);
  }
  return names;
}

}  // namespace

void measure_kernels(const Compilation& compilation, Dump& dump) {
  constexpr int kRuns = 10;
  const auto timer = std::make_shared<LaunchTimer>();
  Session session = make_session(compilation, dump.dims, timer);
  run_once(session, compilation.task, dump.dims, [] { return false; });
  for (int k = 0; k < kRuns; ++k) session.run();
  add_measurements(dump, timer->least_seconds(session.plan()));
}

void write_kernel_repro(const Compilation& compilation, const Dump& dump, const std::string& kernel,
                        const std::filesystem::path& folder) {
  const std::vector<std::string> names = names_of_kernels(*compilation.cpu);
  const auto known = std::ranges::find(dump.kernels, kernel, &KernelDump::name);
  if (known == dump.kernels.end() || std::ranges::find(names, kernel) == names.end()) {
    throw UsageError(fmt::format("--repro: there is no kernel '{}'; choose from: {}", kernel, fmt::join(names, ", ")));
  }
  const auto capture = std::make_shared<LaunchCapture>(kernel);
  Session session = make_session(compilation, dump.dims, capture);
  run_once(session, compilation.task, dump.dims, [&] { return capture->launch().has_value(); });
  const StageText* cuda = find_stage(known->stages, "cuda");
  write_repro(*capture->launch(), cuda ? cuda->preamble + cuda->text : "", folder);
}

}  // namespace moxie
