#include "tools/commands/bench_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_from(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Of this process so far.
double processor_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Times {
  double elapsed = 0, processor = 0;  // seconds
};

class Stopwatch {
 public:
  Times times() const { return {seconds_from(start_), processor_seconds() - processor_start_}; }

 private:
  double processor_start_ = processor_seconds();
  Clock::time_point start_ = Clock::now();
};

void run_to_end(Session& session) {
  session.run();
  session.wait();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Medians of at least 21 runs, and of more while they are short. Runs of seconds are fewer.
Times take_times(Session& session) {
  constexpr int kWarmUp = 5;
  constexpr std::size_t kMinRuns = 3, kEnoughRuns = 21, kMaxRuns = 2001;
  constexpr double kWarmUpSeconds = 1, kMinSeconds = 1, kMaxSeconds = 10;
  const auto begin = Clock::now();
  for (int i = 0; i < kWarmUp && seconds_from(begin) < kWarmUpSeconds; ++i) run_to_end(session);
  std::vector<double> elapsed, processor;
  double sum = 0;
  const auto wants_more = [&] {
    if (elapsed.size() < kMinRuns) return true;
    if (elapsed.size() < kEnoughRuns) return sum < kMaxSeconds;
    return elapsed.size() < kMaxRuns && sum < kMinSeconds;
  };
  while (wants_more()) {
    const Stopwatch watch;
    run_to_end(session);
    const Times taken = watch.times();
    sum += elapsed.emplace_back(taken.elapsed);
    processor.push_back(taken.processor);
  }
  return {median(elapsed), median(processor)};
}

std::int64_t bytes_of(const Program& program, const std::string& tensor, const DimValues& dims) {
  return element_count(extents_of(program, tensor, dims)) *
         static_cast<std::int64_t>(size_of(program.dtype_of(tensor)));
}

template <class AnyStep>
std::int64_t launches_of(const AnyStep& step, const DimValues& dims) {
  const auto* scan = std::get_if<LoweredScan>(&step);
  return scan ? evaluate(scan->extent, dims) * std::ssize(scan->steps) : 1;
}

std::int64_t launches_of(const LoweredSlices& slices, DimValues dims) {
  std::int64_t launches = 0;
  const std::int64_t count = slice_count(slices.slices, dims);
  for (std::int64_t number = 0; number < count; ++number) {
    set_slice_dims(slices.slices, number, dims);
    for (const LoweredSliceStep& step : slices.steps) launches += launches_of(step, dims);
  }
  return launches;
}

std::int64_t launches_of(const Plan& plan, const DimValues& dims) {
  std::int64_t launches = 0;
  for (const PlanStep& step : plan.steps) {
    const auto* slices = std::get_if<LoweredSlices>(&step);
    launches += slices ? launches_of(*slices, dims) : launches_of(step, dims);
  }
  return launches;
}

bool all_finite(const Program& program, const Session& session) {
  return std::ranges::all_of(program.definitions, [&](const Definition& definition) {
    if (!definition.output) return true;
    const std::vector<double> values = to_doubles(session.get(definition.name));
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  });
}

/// The first runs of a session, to find inputs that the formula takes.
class Trial {
 public:
  Trial(const Program& program, const Workload& workload, Session& session)
      : program_(program), workload_(workload), session_(session) {
    if (find_finite()) return;
    finite_ = false;
    if (!first_defined_)
      throw DeviceError(
          fmt::format("{}: no made-up inputs give values ({}); if they are not in the formula's domain, "
                      "declare the signs of its inputs (>= 0, > 0)",
                      program.name, problem_));
    run(*first_defined_);
  }

  std::size_t inputs() const { return inputs_; }
  bool finite() const { return finite_; }
  int runs() const { return runs_; }
  Times times() const { return times_; }

 private:
  bool find_finite() {
    for (std::size_t k = 0; k < workload_.inputs.size(); ++k) {
      if (!run(k)) continue;
      if (all_finite(program_, session_)) return true;
      if (!first_defined_) first_defined_ = k;
    }
    return false;
  }

  /// False for inputs outside the formula's domain.
  bool run(std::size_t inputs) {
    inputs_ = inputs;
    for (const InputDecl& input : session_.program().inputs) {
      session_.set(input.name, make_host_tensor(input.dtype, extents_of(program_, input.name, workload_.dims),
                                                workload_.inputs[inputs].at(input.name)));
    }
    ++runs_;
    bool defined = true;
    const Stopwatch watch;
    try {
      run_to_end(session_);
    } catch (const DeviceError& error) {
      problem_ = error.what();
      defined = false;
    }
    const Times taken = watch.times();
    times_ = {times_.elapsed + taken.elapsed, times_.processor + taken.processor};
    return defined;
  }

  const Program& program_;
  const Workload& workload_;
  Session& session_;
  std::size_t inputs_ = 0;
  std::optional<std::size_t> first_defined_;
  std::string problem_;
  bool finite_ = true;
  int runs_ = 0;
  Times times_;
};

}  // namespace

Measurement measure(const Program& program, const Workload& workload, const DeviceChoice& choice) {
  const DimValues dims = choose_dims(program, workload.dims);
  DeviceChoice device = choice;
  device.cache_directory = "0";  // so that compiling is measured too
  const Stopwatch watch;
  const auto opened = open_chosen_device(device);
  Session session(program, dims, opened);
  const Times planning = watch.times();
  const Workload all{dims, workload.inputs, workload.feedback};
  const Trial trial(program, all, session);
  for (const auto& [output, input] : workload.feedback) {
    if (program.find_definition(output)) session.feed_back(output, input);
  }
  Measurement measured;
  measured.device = opened->name();
  measured.inputs = trial.inputs();
  measured.finite = trial.finite();
  const Times times = take_times(session), tried = trial.times();
  measured.seconds = times.elapsed;
  measured.cpu_seconds = times.processor;
  measured.compile_s = std::max(planning.elapsed + tried.elapsed - trial.runs() * times.elapsed, 0.0);
  measured.compile_cpu_s = std::max(planning.processor + tried.processor - trial.runs() * times.processor, 0.0);
  measured.launches = launches_of(session.plan(), dims);
  measured.workspace_bytes = session.workspace_bytes();
  for (const InputDecl& input : session.program().inputs) measured.input_bytes += bytes_of(program, input.name, dims);
  for (const Definition& definition : program.definitions) {
    if (definition.output) measured.output_bytes += bytes_of(program, definition.name, dims);
  }
  return measured;
}

}  // namespace moxie
