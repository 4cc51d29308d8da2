#include "compiler/schedule/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <set>

#include "compiler/loop/lower_scatter.h"
#include "compiler/loop/split_ranges.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/definitions_of.h"
#include "compiler/schedule/join.h"
#include "compiler/schedule/lower_nest.h"
#include "compiler/schedule/pattern.h"
#include "compiler/schedule/pieces.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"

namespace moxie {
namespace {

/// A kernel, and why it looks as it does.
struct Chosen {
  LoweredKernel kernel;
  ScheduleChoice choice;
  double objective = 0;
  std::optional<Nest> nest = {};  // of a kernel that can be joined with its neighbours
};

/// The kernels that take the place of one kernel of the fused Program.
struct Kernels {
  std::vector<Chosen> kernels;
  double objective = 0;
  double least = 0;  // of this, what no other loops save
  std::size_t candidates = 0;
};

/// What is to be run, one after the other, and what that costs: see ScheduledProgram.
struct ScheduledSteps {
  std::vector<LoweredStep> steps;
  std::vector<ScheduleChoice> choices;
  double objective = 0, excess = 0;
  std::map<std::string, double> objectives;
  std::set<std::string> single_forms;
  std::size_t candidates = 0;
  LaneGathers gathers;
};

constexpr std::size_t kShownAlternatives = 3;
/// What another form must save by estimate before it is taken: estimates of kernels of different forms are off by up to
/// a third against each other (moxie doctor --estimates).
constexpr double kEstimateError = 0.75;
/// The share of a Program that kernels could save at most before other loops are tried. Sums over all steps of a scan
/// that had lanes across the steps took 20 times as long as with lanes along rows, and were a quarter of a Program
/// whose steps leave nothing to save. The copy of a tensor by blocks of 64, with lanes across its rows, took 1.6 of 16
/// ms of an attention layer, of which estimates say 3 %.
constexpr double kWorthASearch = 0.02;
/// The share of a Program that a nest takes at least before copies are tried for lanes along another of its axes. A
/// layer of GPNs with gradients, of 26 kernels that take about as long each, had 33 with copies for them all.
constexpr double kWorthCopies = 0.1;
/// The share of both kernels that the shorter of two takes at least before joint loops are lowered, which save part of
/// it: a contraction of eight matrices was scheduled in 2.8 s with copies tried in the loops of products that take a
/// million times as long, and equal candidates tiled twice, and in 1.9 s without.
constexpr double kWorthJoining = 0.01;

/// The share of all lanes that compute something: half, where lanes lie along 8 elements of 16.
double share_of_lanes(const LoweredKernel& kernel, const DimValues& extents, int lanes) {
  if (!kernel.tiles || !kernel.tiles->over_lanes) return 1;
  const auto elements = static_cast<double>(extent_of(*kernel.tiles, extents));
  const auto vectors = static_cast<double>(vector_extent_of(*kernel.tiles, extents, lanes));
  return vectors > 0 ? elements / (vectors * lanes) : 1;
}

/// Launches and the arithmetic of full vectors, in the measure of objective(): other loops do not save them. A kernel
/// without lanes has no such bound.
double least_seconds(const LoweredKernel& kernel, const Cost& cost, const DimValues& extents, const Machine& machine) {
  if (cost.lanes == 1) return std::min(cost.launch, machine.launch_seconds);
  const auto cycles_of = [&](Port port) {
    const auto k = static_cast<std::size_t>(port);
    return cost.ports.at(k) - cost.spare_ports.at(k);
  };
  const double arithmetic =
      std::max(cycles_of(Port::Arithmetic), cycles_of(Port::Divider)) * share_of_lanes(kernel, extents, cost.lanes);
  const double cycle = 1e-9 / machine.gigahertz;
  const double cores = std::min(static_cast<double>(cost.pieces), machine.cores);
  const double fastest =
      std::min(cost.launch + arithmetic * cycle / cores, machine.launch_seconds + arithmetic * cycle);
  return fastest + arithmetic * cycle / machine.cores;
}

std::string text_of(const Candidate& candidate, const Machine& machine) {
  return fmt::format("{}: {}", print(candidate.schedule), describe(candidate.cost, machine));
}

/// All choices in one text: those of a kernel that was split.
std::string text_of(const Kernels& kernels) {
  std::string text;
  for (const auto& [kernel, choice, objective, nest] : kernels.kernels)
    text += fmt::format("{}{}: {} ({:.3g} us)", text.empty() ? "" : ", ", choice.kernel, choice.chosen,
                        choice.seconds * 1e6);
  return text;
}

const Schedule* find_given(const GivenSchedules& given, const std::string& definition) {
  const auto found = given.find(definition);
  const auto by_kernel = found == given.end() ? given.find(kernel_name(definition)) : found;
  return by_kernel == given.end() ? nullptr : &by_kernel->second;
}

/// Throws CompileError where a schedule is given for a definition whose loops are not a nest.
void refuse_given(const GivenSchedules& given, const std::string& definition, std::string_view what) {
  if (find_given(given, definition))
    throw CompileError(fmt::format("no schedule can be given for {}: it is computed by {}", definition, what));
}

/// What a search found: no schedule where no loops can compute the definition.
struct Found {
  Pattern pattern;
  std::string definition;
  std::optional<Schedule> schedule;
  std::vector<std::string> alternatives;
};

class Choosing {
 public:
  Choosing(const FusedProgram& fused, const DimValues& extents, const Machine& machine, const GivenSchedules& given,
           std::vector<Found>& found)
      : fused_(fused), definitions_of_(fused), extents_(extents), machine_(machine), given_(given), found_(found) {}

  /// Chooses for a Program, or for a scan. Steps that cost more than `most` are left before the last of them.
  template <class AnyStep>
  ScheduledSteps run(const std::vector<AnyStep>& steps, bool with_nests, double most = HUGE_VAL) {
    ScheduledSteps result;
    for (const AnyStep& step : steps) {
      std::visit([&](const auto& part) { add(result, part, with_nests); }, step);
      if (result.objective > most) break;
    }
    flush(result);
    return result;
  }

 private:
  /// What is no kernel comes after the kernel that still waits for one to join.
  void append(ScheduledSteps& result, LoweredStep step) {
    flush(result);
    result.steps.push_back(std::move(step));
  }

  void add(ScheduledSteps& result, const MatrixProduct& product, bool) {
    refuse_given(given_, product.definition.name, "a product of matrices");
    append(result, product);
    const double cost = objective(estimate(product, extents_, machine_), machine_);
    result.objective += cost;
    result.objectives[product.definition.name] = cost;
  }

  void add(ScheduledSteps& result, const AlgebraCall& call, bool) {
    refuse_given(given_, call.definition.name, "a library of linear algebra");
    append(result, call);
  }

  void add(ScheduledSteps& result, const OrderedSumCall& call, bool) {
    refuse_given(given_, call.definition.name, "sorting its keys");
    append(result, call);
  }

  void add(ScheduledSteps& result, const Kernel& kernel, bool with_nests) {
    Kernels chosen = shared_loops(kernel);
    const bool has_nests = is_nest(kernel) && !scatter_of(fused_.program, kernel);
    if (has_nests) chosen.least /= elements_that_share(kernel);
    const bool has_wrong_loops = has_nests && chosen.least < kEstimateError * chosen.objective;
    if (has_wrong_loops) result.excess += chosen.objective - chosen.least;
    if (!has_nests) result.single_forms.insert(chosen.kernels.front().choice.kernel);
    result.candidates += chosen.candidates;
    if (with_nests && is_given(kernel)) {
      chosen = in_given_nests(kernel);
      result.candidates += chosen.candidates;
      for (Chosen& given : chosen.kernels) given.nest.reset();  // other loops would not be those that were given
    } else if (with_nests && (has_wrong_loops || (has_nests && is_small(kernel)))) {
      if (auto nests = in_nests(kernel)) {
        result.candidates += nests->candidates;
        for (const Chosen& next : nests->kernels)
          result.gathers.add(lane_gathers(fused_.program, *next.nest, extents_, next.objective));
        Kernels together = joined(result, *nests);
        const double before = last_ ? last_->objective : 0;
        const bool is_absorbed = last_ && together.kernels.size() == 1;
        if (together.objective < before + (is_absorbed ? 1 : kEstimateError) * chosen.objective) {
          last_.reset();
          chosen = std::move(together);
        } else {
          chosen.kernels.front().choice.alternatives.push_back(text_of(*nests));
        }
      }
    }
    for (Chosen& next : chosen.kernels) {
      flush(result);
      last_ = std::move(next);
    }
  }

  /// The kernels of a step are chosen as any others, for the step in the middle of the scan.
  void add(ScheduledSteps& result, const ScanLoop& scan, bool with_nests) {
    flush(result);
    const std::int64_t count = evaluate(scan.extent, extents_);
    DimValues at_step = extents_;
    at_step[kScanStep] = count / 2;
    ScheduledSteps step = Choosing(fused_, at_step, machine_, given_, found_).run(scan.steps, with_nests);
    LoweredScan lowered{scan.name, scan.extent, scan.backwards, {}};
    const auto append_part = [&]<class Part>(Part& part) {
      if constexpr (std::constructible_from<LoweredScanStep, Part>)
        lowered.steps.emplace_back(std::move(part));
      else
        throw InternalError("a step of scan " + scan.name + " is nothing that a scan holds");
    };
    for (LoweredStep& part : step.steps) std::visit(append_part, part);
    append(result, std::move(lowered));
    for (ScheduleChoice& choice : step.choices) {
      choice.reason += "; one step of a scan";
      result.choices.push_back(std::move(choice));
    }
    result.objective += static_cast<double>(count) * step.objective;
    result.excess += static_cast<double>(count) * step.excess;
    for (const auto& [kernel, cost] : step.objectives) result.objectives[kernel] += static_cast<double>(count) * cost;
    result.single_forms.merge(step.single_forms);
    result.candidates += step.candidates;
    result.gathers.add(step.gathers, static_cast<double>(count));
  }

  /// The last kernel becomes a step: no other is going to share its loops.
  void flush(ScheduledSteps& result) {
    if (!last_) return;
    result.steps.emplace_back(std::move(last_->kernel));
    result.choices.push_back(std::move(last_->choice));
    result.objective += last_->objective;
    result.objectives[result.choices.back().kernel] += last_->objective;
    last_.reset();
  }

  /// The last kernel and these nests, each in the loops of the one before it where that is cheaper.
  Kernels joined(ScheduledSteps& result, const Kernels& nests) const {
    Kernels together;
    if (last_) together.kernels.push_back(*last_);
    for (const Chosen& next : nests.kernels) {
      auto joint = together.kernels.empty() ? std::nullopt : in_one_kernel(result, together.kernels.back(), next);
      if (joint)
        together.kernels.back() = std::move(*joint);
      else
        together.kernels.push_back(next);
    }
    for (const Chosen& kernel : together.kernels) together.objective += kernel.objective;
    return together;
  }

  /// Both in shared loops, with the register tiles of either or without, if that is cheaper than one after the other.
  std::optional<Chosen> in_one_kernel(ScheduledSteps& result, const Chosen& first, const Chosen& second) const {
    if (!first.nest || !second.nest) return std::nullopt;
    if (std::min(first.objective, second.objective) < kWorthJoining * (first.objective + second.objective))
      return std::nullopt;
    const std::vector<Nest> nests = joint_nests(*first.nest, *second.nest);
    std::vector<std::optional<Chosen>> kernels(nests.size());
    in_parallel(nests.size(), [&](std::size_t k) { kernels[k] = joint_kernel(nests[k]); });
    std::optional<Chosen> best;
    for (std::optional<Chosen>& joint : kernels) {
      result.candidates += joint.has_value();
      if (joint && joint->objective < (best ? best->objective : first.objective + second.objective))
        best = std::move(joint);
    }
    if (best) best->choice = joint_choice(first.choice, second.choice, std::move(best->choice));
    return best;
  }

  /// Nothing for loops that are not legal.
  std::optional<Chosen> joint_kernel(const Nest& nest) const {
    try {
      Candidate joint = candidate(fused_, nest, extents_, machine_);
      ScheduleChoice choice{joint.kernel.program.name, "", joint.cost.seconds, describe(joint.cost, machine_), {}};
      const double cost = objective(joint.cost, machine_);
      return Chosen{std::move(joint.kernel), std::move(choice), cost, nest};
    } catch (const CompileError&) {
      return std::nullopt;
    }
  }

  static ScheduleChoice joint_choice(const ScheduleChoice& first, const ScheduleChoice& second, ScheduleChoice joint) {
    joint.chosen = fmt::format("{}; with {}: {}", first.chosen, second.kernel, second.chosen);
    joint.alternatives.push_back(fmt::format("{} ({:.3g} us), {}: {} ({:.3g} us)", first.kernel, first.seconds * 1e6,
                                             second.kernel, second.chosen, second.seconds * 1e6));
    std::ranges::copy(first.alternatives, std::back_inserter(joint.alternatives));
    std::ranges::copy(second.alternatives, std::back_inserter(joint.alternatives));
    joint.alternatives.resize(std::min(joint.alternatives.size(), kShownAlternatives));
    return joint;
  }

  /// A kernel at the bound of its arithmetic gains only from loops that compute less. These are looked for where a
  /// search takes a few milliseconds.
  static bool is_small(const Kernel& kernel) {
    constexpr std::size_t kMaxNodes = 48;
    std::size_t nodes = 0;
    for (const KernelRoot& root : kernel.roots) visit(root.body, [&](const Expr&) { ++nodes; });
    return nodes <= kMaxNodes;
  }

  /// Elements along a short axis that can share the arithmetic of a long sum, as forces of bodies share distances:
  /// other loops may compute so much less.
  double elements_that_share(const Kernel& kernel) const {
    constexpr std::int64_t kLongestShared = 16;
    double most = 1;
    for (const Definition& definition : definitions_of_(kernel)) {
      bool sums_long = false;
      visit(definition.body, [&](const Expr& e) { sums_long |= e->kind == NodeKind::Reduce && is_long(e->range); });
      for (const AxisDecl& axis : definition.axes) {
        const auto extent = known_extent(axis.range);
        if (sums_long && extent && *extent <= kLongestShared) most = std::max(most, static_cast<double>(*extent));
      }
    }
    return most;
  }

  /// The loops that fusion arranged.
  Kernels shared_loops(const Kernel& kernel) const {
    LoweredKernel lowered = lower(fused_, kernel);
    split_ranges(lowered);
    const Cost cost = estimate(lowered, at_first_step(lowered, extents_), machine_);
    ScheduleChoice choice{lowered.program.name,
                          kernel.roots.front().prefix ? kernel.reason : "shared loops",
                          cost.seconds,
                          describe(cost, machine_),
                          {}};
    const double all = objective(cost, machine_);
    const double least = least_seconds(lowered, cost, extents_, machine_);
    return {{{std::move(lowered), std::move(choice), all}}, all, least, 1};
  }

  /// A nest for each definition; nothing where a definition has none.
  std::optional<Kernels> in_nests(const Kernel& kernel) const {
    Kernels result;
    for (const Definition& definition : definitions_of_(kernel)) {
      if (!add_nest(definition, result)) return std::nullopt;
    }
    return result;
  }

  /// Whether there is one.
  bool add_nest(const Definition& definition, Kernels& result) const {
    const Pattern pattern = pattern_of(fused_, definition);
    const auto known = std::ranges::find(found_, pattern, &Found::pattern);
    if (known != found_.end() && known->schedule) {
      const Candidate again = candidate(fused_, definition, *known->schedule, extents_, machine_);
      ++result.candidates;
      add_nest(definition, again, describe(again.cost, machine_) + "; as the best for " + known->definition,
               known->alternatives, result);
      return true;
    }
    if (known != found_.end()) return false;
    const std::vector<Candidate> candidates = search(fused_, definition, extents_, machine_);
    result.candidates += candidates.size();
    Found found{pattern, definition.name, {}, {}};
    for (std::size_t k = 1; k < std::min(candidates.size(), kShownAlternatives + 1); ++k)
      found.alternatives.push_back(text_of(candidates[k], machine_));
    if (!candidates.empty()) {
      const Candidate& best = candidates.front();
      found.schedule = best.schedule;
      add_nest(definition, best, describe(best.cost, machine_), found.alternatives, result);
    }
    found_.push_back(std::move(found));
    return !candidates.empty();
  }

  void add_nest(const Definition& definition, const Candidate& nest, std::string reason,
                std::vector<std::string> alternatives, Kernels& result) const {
    const double cost = objective(nest.cost, machine_);
    result.objective += cost;
    result.kernels.push_back({nest.kernel,
                              {nest.kernel.program.name, print(nest.schedule), nest.cost.seconds, std::move(reason),
                               std::move(alternatives)},
                              cost,
                              prepared(fused_, apply(nest.schedule, plain_nest(std::span(&definition, 1))))});
  }

  bool is_given(const Kernel& kernel) const {
    return !given_.empty() && std::ranges::any_of(definitions_of_(kernel), [&](const Definition& definition) {
      return find_given(given_, definition.name) != nullptr;
    });
  }

  /// A nest for each definition, with the given schedules where there are some.
  Kernels in_given_nests(const Kernel& kernel) const {
    Kernels result;
    for (const Definition& definition : definitions_of_(kernel)) {
      if (!is_nest(kernel))
        refuse_given(given_, definition.name, kernel.roots.front().prefix ? "one pass of a scan" : "linear algebra");
      if (const Schedule* schedule = find_given(given_, definition.name)) {
        const Candidate nest = given_nest(definition, *schedule);
        add_nest(definition, nest, "given; " + describe(nest.cost, machine_), {}, result);
      } else if (!add_nest(definition, result)) {
        throw CompileError(
            fmt::format("no schedule can be given for a definition of kernel {}: {}, which it computes "
                        "too, is no nest of loops",
                        kernel.name, definition.name));
      }
    }
    return result;
  }

  Candidate given_nest(const Definition& definition, const Schedule& schedule) const {
    try {
      return candidate(fused_, definition, schedule, extents_, machine_);
    } catch (const CompileError& error) {
      throw CompileError(fmt::format("the schedule given for {}, `{}`, is not legal: {}", definition.name,
                                     print(schedule), error.what()));
    }
  }

  const FusedProgram& fused_;
  const DefinitionsOf definitions_of_;
  const DimValues& extents_;
  const Machine& machine_;
  const GivenSchedules& given_;
  std::vector<Found>& found_;   // for every pattern that was met
  std::optional<Chosen> last_;  // the next kernel may share its loops
};

/// What the kernels take that are the same in both, or have a single form, such as scatters.
double in_equal_kernels(const ScheduledProgram& a, const ScheduledProgram& b) {
  double sum = 0;
  for (const auto& [kernel, cost] : a.objectives) {
    const auto other = b.objectives.find(kernel);
    if (other == b.objectives.end()) continue;
    if (other->second == cost || a.single_forms.contains(kernel)) sum += std::min(cost, other->second);
  }
  return sum;
}

/// What other kernels would have taken, for those that were chosen for all that they compute together.
void add_alternatives(std::vector<ScheduleChoice>& choices, const std::vector<ScheduleChoice>& others) {
  if (choices.size() != others.size()) return;  // kernels of one name do not compute the same
  for (ScheduleChoice& choice : choices) {
    const auto other = std::ranges::find(others, choice.kernel, &ScheduleChoice::kernel);
    if (other == others.end() || other->chosen == choice.chosen) continue;
    choice.alternatives.push_back(fmt::format("{}: {}", other->chosen, other->reason));
    std::ranges::copy(other->alternatives, std::back_inserter(choice.alternatives));
    choice.alternatives.resize(std::min(choice.alternatives.size(), kShownAlternatives));
  }
}

/// Tensors of which copies may pay together: what lanes of one kind gather, along other axes of the nests that take a
/// good part of what all do.
std::set<std::set<LaneGather>> copies_to_try(const ScheduledProgram& scheduled) {
  std::set<std::set<LaneGather>> result;
  for (const GatheringLanes lanes : kGatheringLanes) {
    const double least = lanes == GatheringLanes::along_other_axis ? kWorthCopies * scheduled.objective : 0;
    std::set<LaneGather> gathers;
    for (const auto& [gather, cost] : scheduled.gathers.of(lanes)) {
      if (cost >= least) gathers.insert(gather);
    }
    result.insert(std::move(gathers));
  }
  return result;
}

}  // namespace

ScheduledProgram schedule(const Program& optimised, Products products, const DimValues& extents, const Machine& machine,
                          const GivenSchedules& given) {
  std::vector<Found> found;
  const auto choose = [&](FusedProgram fused, bool with_nests, double most = HUGE_VAL) {
    ScheduledSteps chosen = Choosing(fused, extents, machine, given, found).run(fused.steps, with_nests, most);
    return ScheduledProgram{std::move(fused),
                            std::move(chosen.steps),
                            std::move(chosen.choices),
                            chosen.objective,
                            chosen.excess,
                            std::move(chosen.objectives),
                            std::move(chosen.single_forms),
                            chosen.candidates,
                            std::move(chosen.gathers)};
  };
  const auto row_major = [&](const Program& program, double most = HUGE_VAL) {
    return choose(fuse(program, products, Layouts::row_major, extents), /*with_nests=*/true, most);
  };
  if (std::ranges::any_of(optimised.definitions,
                          [&](const Definition& definition) { return find_given(given, definition.name) != nullptr; }))
    return row_major(optimised);
  ScheduledProgram best = choose(fuse(optimised, products, Layouts::chosen, extents), /*with_nests=*/false);
  if (best.excess < kWorthASearch * best.objective) {
    for (ScheduleChoice& choice : best.choices)
      choice.reason += "; no other loops were tried: they save little of what all kernels take";
    return best;
  }
  ScheduledProgram nests = row_major(optimised);
  // Loops that suit copies may have lanes that gather from other tensors.
  std::set<LaneGather> copied;
  std::set<std::set<LaneGather>> tried = {copied};
  const auto copy_more = [&] {
    for (std::set<LaneGather> gathers : copies_to_try(nests)) {
      std::erase_if(gathers, [&](const LaneGather& gather) {
        const bool is_there = optimised.find_input(gather.tensor) || optimised.find_definition(gather.tensor);
        return !is_there || !optimised.find_definition(gather.definition);
      });
      gathers.insert(copied.begin(), copied.end());
      if (!tried.insert(gathers).second) continue;
      ScheduledProgram copies = row_major(with_copies(optimised, gathers), nests.objective);
      copies.candidates = nests.candidates += copies.candidates;
      if (copies.objective > (1 - kWorthASearch) * nests.objective) continue;
      nests = std::move(copies);
      copied = std::move(gathers);
      return true;
    }
    return false;
  };
  while (copy_more()) {
  }
  nests.candidates = best.candidates += nests.candidates;
  const double same = in_equal_kernels(best, nests);
  if (nests.objective - same < kEstimateError * (best.objective - same)) return nests;
  add_alternatives(best.choices, nests.choices);
  return best;
}

}  // namespace moxie
