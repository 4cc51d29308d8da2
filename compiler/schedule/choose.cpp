#include "compiler/schedule/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/schedule/definitions_of.h"
#include "compiler/schedule/pieces.h"

namespace moxie {
namespace {

/// The kernels that take the place of one kernel of the fused Program.
struct Kernels {
  std::vector<LoweredKernel> kernels;
  std::vector<ScheduleChoice> choices;
  double objective = 0;
  double least = 0;  // of this, what no other loops save
};

constexpr std::size_t kShownAlternatives = 3;
/// What another form must save by estimate before it is taken: estimates of kernels of different forms are off by up to
/// a third against each other (moxie doctor --estimates).
constexpr double kEstimateError = 0.75;

/// Launches and the arithmetic of vectors, in the measure of objective(): other loops do not save them. A kernel without
/// lanes has no such bound.
double least_seconds(const Cost& cost, const Machine& machine) {
  if (cost.lanes == 1) return cost.launch;
  const auto cycles_of = [&](Port port) { return cost.ports.at(static_cast<std::size_t>(port)); };
  const double arithmetic = std::max(cycles_of(Port::Arithmetic), cycles_of(Port::Divider));
  const double cycle = 1e-9 / machine.gigahertz;
  const double cores = std::min(static_cast<double>(cost.pieces), machine.cores);
  return cost.launch + arithmetic * cycle * (1 / cores + 1 / machine.cores);
}

std::string text_of(const Candidate& candidate, const Machine& machine) {
  return fmt::format("{}: {}", print(candidate.schedule), describe(candidate.cost, machine));
}

class Choosing {
 public:
  Choosing(const DimValues& extents, const Machine& machine) : extents_(extents), machine_(machine) {}

  ScheduledProgram run(FusedProgram fused, bool with_nests) const {
    ScheduledProgram result{std::move(fused), {}, {}, 0};
    for (const Step& step : result.fused.steps) {
      if (const auto* kernel = std::get_if<Kernel>(&step))
        add(result, *kernel, with_nests);
      else if (const auto* scan = std::get_if<ScanLoop>(&step))
        add(result, *scan);
      else
        result.steps.emplace_back(std::get<MatrixProduct>(step));
    }
    return result;
  }

 private:
  void add(ScheduledProgram& result, const Kernel& kernel, bool with_nests) const {
    Kernels chosen = shared_loops(result.fused, kernel);
    result.least += chosen.least;
    if (with_nests && is_nest(kernel) && (chosen.least < kEstimateError * chosen.objective || is_small(kernel))) {
      auto nests = in_nests(result.fused, kernel);
      if (nests && nests->objective < kEstimateError * chosen.objective)
        chosen = std::move(*nests);
      else if (nests)
        for (const ScheduleChoice& nest : nests->choices) chosen.choices.front().alternatives.push_back(nest.chosen);
    }
    for (LoweredKernel& lowered : chosen.kernels) result.steps.emplace_back(std::move(lowered));
    result.choices.insert(result.choices.end(), chosen.choices.begin(), chosen.choices.end());
    result.objective += chosen.objective;
  }

  void add(ScheduledProgram& result, const ScanLoop& scan) const {
    LoweredScan lowered = lower(result.fused, scan);
    DimValues at_step = extents_;
    at_step[kScanStep] = 0;
    const auto steps = static_cast<double>(evaluate(scan.extent, extents_));
    for (const LoweredScanStep& step : lowered.steps) {
      if (const auto* kernel = std::get_if<LoweredKernel>(&step)) {
        const double seconds = steps * objective(estimate(*kernel, at_step, machine_), machine_);
        result.objective += seconds;
        result.least += seconds;
      }
    }
    result.steps.emplace_back(std::move(lowered));
  }

  /// A kernel at the bound of its arithmetic gains only from loops that compute less. These are looked for where a search
  /// takes a few milliseconds.
  static bool is_small(const Kernel& kernel) {
    constexpr std::size_t kMaxNodes = 48;
    std::size_t nodes = 0;
    for (const KernelRoot& root : kernel.roots) visit(root.body, [&](const Expr&) { ++nodes; });
    return nodes <= kMaxNodes;
  }

  /// The loops that fusion arranged.
  Kernels shared_loops(const FusedProgram& fused, const Kernel& kernel) const {
    LoweredKernel lowered = lower(fused, kernel);
    const Cost cost = estimate(lowered, extents_, machine_);
    Kernels result{
        {}, {{lowered.program.name, "shared loops", cost.seconds, {}}}, objective(cost, machine_), least_seconds(cost, machine_)};
    result.kernels.push_back(std::move(lowered));
    return result;
  }

  /// A nest for each definition; nothing where a definition has none.
  std::optional<Kernels> in_nests(const FusedProgram& fused, const Kernel& kernel) const {
    Kernels result;
    for (const Definition& definition : definitions_of(fused, kernel)) {
      const std::vector<Candidate> candidates = search(fused, std::span(&definition, 1), extents_, machine_);
      if (candidates.empty()) return std::nullopt;
      const Candidate& best = candidates.front();
      ScheduleChoice choice{best.kernel.program.name, text_of(best, machine_), best.cost.seconds, {}};
      for (std::size_t k = 1; k < std::min(candidates.size(), kShownAlternatives + 1); ++k)
        choice.alternatives.push_back(text_of(candidates[k], machine_));
      result.objective += objective(best.cost, machine_);
      result.kernels.push_back(best.kernel);
      result.choices.push_back(std::move(choice));
    }
    return result;
  }

  const DimValues& extents_;
  const Machine& machine_;
};

}  // namespace

ScheduledProgram schedule(const Program& optimised, Products products, const DimValues& extents,
                          const Machine& machine) {
  const Choosing choosing(extents, machine);
  ScheduledProgram best = choosing.run(fuse(optimised, products), /*with_nests=*/false);
  if (best.least > kEstimateError * best.objective) return best;
  ScheduledProgram row_major = choosing.run(fuse(optimised, products, Layouts::row_major), /*with_nests=*/true);
  return row_major.objective < kEstimateError * best.objective ? std::move(row_major) : std::move(best);
}

}  // namespace moxie
