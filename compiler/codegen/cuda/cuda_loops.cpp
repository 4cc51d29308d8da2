#include "compiler/codegen/cuda/cuda_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>
#include <span>

#include "compiler/codegen/cuda/cuda_cost.h"
#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/loop/lower_scatter.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/definitions_of.h"
#include "compiler/schedule/join.h"
#include "compiler/schedule/lower_nest.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// What nests must save by estimate before they take the place of the loops that fusion arranged.
constexpr double kFormsError = 0.75;
/// The same for two layouts with loops of one form.
constexpr double kLayoutError = 0.9;
/// Threads that compute an element together: one alone, a warp (kWarp), or a block.
constexpr int kThread = 1, kBlock = 256;
/// Of a sum over a range by data also 0: as the loops suggest.
constexpr int kTeamsOfRanges[] = {0, kThread, kWarp, kBlock};
/// Neighbours along an axis that a thread computes, in registers.
constexpr std::int64_t kTile = 4;
/// Axes of a register tile.
constexpr int kTiledAxes = 2;
/// More definitions in one nest make compilers slow.
constexpr std::size_t kMostInANest = 8;

class GpuLowering {
 public:
  GpuLowering(const FusedProgram& fused, const GpuLimits& limits, const DimValues& extents)
      : fused_(fused), definitions_of_(fused), limits_(limits), extents_(extents) {}

  template <class AnyStep, class AnyLowered>
  void lower_all(const std::vector<AnyStep>& steps, std::vector<AnyLowered>& lowered) {
    for (const AnyStep& step : steps) std::visit([&](const auto& part) { add(part, lowered); }, step);
    flush(lowered);
  }

  std::vector<ScheduleChoice> choices;

 private:
  /// Definitions in one nest, and the kernel that it becomes.
  struct Nested {
    Nest nest;
    LoweredKernel kernel;
    double seconds = 0;
  };

  /// Both forms of a kernel, or of several that nests compute together: those have no shared loops.
  struct Forms {
    std::optional<LoweredKernel> shared;
    double shared_seconds = HUGE_VAL;
    std::vector<Nested> nests;

    double nests_seconds() const {
      double sum = nests.empty() ? HUGE_VAL : 0;
      for (const Nested& nested : nests) sum += nested.seconds;
      return sum;
    }
    bool takes_nests() const { return nests_seconds() < kFormsError * shared_seconds; }
    double least_seconds() const { return takes_nests() ? nests_seconds() : shared_seconds; }
  };

  template <class Call, class AnyLowered>
  void add(const Call& call, std::vector<AnyLowered>& lowered) {
    flush(lowered);
    lowered.emplace_back(call);
  }

  template <class AnyLowered>
  void add(const ScanLoop& scan, std::vector<AnyLowered>& lowered) {
    flush(lowered);
    LoweredScan loop{scan.name, scan.extent, scan.backwards, {}};
    lower_all(scan.steps, loop.steps);
    lowered.emplace_back(std::move(loop));
  }

  /// A kernel waits for the next one, whose definitions may join its nests.
  template <class AnyLowered>
  void add(const Kernel& kernel, std::vector<AnyLowered>& lowered) {
    Forms own{lower(fused_, kernel), 0, in_nests(kernel)};
    own.shared_seconds = seconds(*own.shared);
    if (auto search = in_search(*own.shared)) {
      const double taken = seconds(*search);
      if (taken < own.shared_seconds) own.shared = std::move(search), own.shared_seconds = taken;
    }
    if (auto ranges = lower_ranges_of_threads(fused_, kernel)) {
      for (const int team : kTeamsOfRanges) {
        ranges->team = team;
        const double taken = seconds(*ranges);
        if (taken < own.shared_seconds) own.shared = ranges, own.shared_seconds = taken;
      }
    }
    if (auto together = last_ ? joined(*last_, own) : std::nullopt) {
      last_ = std::move(together);
      return;
    }
    flush(lowered);
    last_ = std::move(own);
  }

  std::optional<Forms> joined(const Forms& first, const Forms& second) const {
    if (first.nests.empty() || second.nests.empty()) return std::nullopt;
    Forms together{{}, HUGE_VAL, first.nests};
    for (const Nested& own : second.nests) {
      if (!joins_one_of(together.nests, own)) together.nests.push_back(own);
    }
    const bool joins = together.nests.size() < first.nests.size() + second.nests.size();
    const double apart = first.least_seconds() + second.least_seconds();
    return joins && together.nests_seconds() < kLayoutError * apart ? std::optional(std::move(together)) : std::nullopt;
  }

  template <class AnyLowered>
  void flush(std::vector<AnyLowered>& lowered) {
    if (!last_) return;
    const Forms forms = std::move(*last_);
    last_.reset();
    const std::string reason =
        forms.shared
            ? fmt::format("shared loops {:.3g} us, nests {}", forms.shared_seconds * 1e6,
                          forms.nests.empty() ? "impossible" : fmt::format("{:.3g} us", forms.nests_seconds() * 1e6))
            : "together with definitions of the kernel before it";
    if (!forms.takes_nests()) {
      choices.push_back({forms.shared->program.name, "shared loops", forms.shared_seconds, reason, {}});
      lowered.emplace_back(*forms.shared);
      return;
    }
    for (const Nested& nested : forms.nests) {
      choices.push_back({nested.kernel.program.name, "a nest", nested.seconds, reason, {}});
      lowered.emplace_back(nested.kernel);
    }
  }

  /// A sum by value in the loops that the threads of a processor run, where a warp can run them.
  static std::optional<LoweredKernel> in_search(LoweredKernel kernel) {
    kernel.threads.reset();
    const LoopProgram& program = kernel.program;
    const auto combines = [](const Value& value) { return std::holds_alternative<op::CombineLanes>(value.operation); };
    const bool fits =
        cuda_text::searches_terms(kernel) && program.arrays.empty() && std::ranges::none_of(program.values, combines);
    return fits ? std::optional(std::move(kernel)) : std::nullopt;
  }

  double seconds(const LoweredKernel& kernel) const { return gpu_seconds(kernel, limits_, extents_); }

  /// A nest for each definition, or one for several where that is cheaper. Empty where a definition has none.
  std::vector<Nested> in_nests(const Kernel& kernel) const {
    if (!is_nest(kernel) || scatter_of(fused_.program, kernel)) return {};
    std::vector<Nested> nests;
    for (const Definition& definition : definitions_of_(kernel)) {
      auto own = cheapest_order(definition);
      if (!own) return {};
      if (!joins_one_of(nests, *own)) nests.push_back(std::move(*own));
    }
    return nests;
  }

  /// Elements in the order of the memory, or of the axes, which may be that of what teams read.
  std::optional<Nested> cheapest_order(const Definition& definition) const {
    const Nest in_memory = in_order(definition);
    auto best = cheapest(in_memory);
    const Nest by_axes = prepared(fused_, plain_nest(std::span(&definition, 1)));
    if (by_axes.roots.front().loops == in_memory.roots.front().loops || !has_sum(by_axes.roots.front())) return best;
    auto other = cheapest(by_axes);
    const bool better = other && (!best || other->seconds < kLayoutError * best->seconds);
    return better ? std::move(other) : std::move(best);
  }

  /// One loop for each index, that of the fastest axis innermost.
  Nest in_order(const Definition& definition) const {
    Nest nest = plain_nest(std::span(&definition, 1));
    const std::vector<std::uint32_t> layout = declare_buffer(fused_, definition.name).layout;
    std::ranges::sort(nest.roots.front().loops, {},
                      [&](const NestLoop& loop) { return std::ranges::find(layout, loop.axis) - layout.begin(); });
    return prepared(fused_, std::move(nest));
  }

  /// The last nest that the definition can join, unless a later one gives it something.
  bool joins_one_of(std::vector<Nested>& nests, const Nested& own) const {
    for (auto other = nests.rbegin(); other != nests.rend(); ++other) {
      if (auto joint = joined(*other, own); joint && joint->seconds < other->seconds + own.seconds) {
        *other = std::move(*joint);
        return true;
      }
      if (reads(own.nest, other->nest)) return false;
    }
    return false;
  }

  /// Both in one nest. It takes the register tiles of either nest, or none: searching all tiles again for every pair of
  /// nests took most of the time and hardly ever found a better one.
  std::optional<Nested> joined(const Nested& first, const Nested& second) const {
    if (!share_elements(first.nest, second.nest)) return std::nullopt;
    Nest both = without_tiles(first.nest);
    std::ranges::copy(without_tiles(second.nest).roots, std::back_inserter(both.roots));
    if (both.roots.size() > kMostInANest) return std::nullopt;
    both = prepared(fused_, std::move(both));
    std::vector<Nest> forms = {both};
    for (const Nested* own : {&first, &second}) {
      auto tiled = with_tiles_of(own->nest, both);
      if (tiled && std::ranges::find(forms, *tiled) == forms.end()) forms.push_back(std::move(*tiled));
    }
    std::optional<Nested> best;
    for (const Nest& form : forms) keep_cheaper(best, cheapest_team(form));
    return best;
  }

  static std::optional<Nest> with_tiles_of(const Nest& form, Nest nest) {
    const std::vector<NestLoop>& loops = form.roots.front().loops;
    std::optional<Nest> tiled = std::move(nest);
    for (std::size_t k = 0; tiled && k < std::min(loops.size(), fewest_loops(*tiled)); ++k) {
      if (loops[k].unroll > 1) tiled = with_tile(std::move(*tiled), k);
    }
    return tiled;
  }

  static void keep_cheaper(std::optional<Nested>& best, std::optional<Nested> other) {
    if (other && (!best || other->seconds < best->seconds)) best = std::move(other);
  }

  static bool reads(const Nest& reader, const Nest& producer) {
    return std::ranges::any_of(reader.roots, [&](const NestRoot& root) {
      bool found = false;
      visit(root.definition.body, [&](const Expr& e) {
        found |= e->kind == NodeKind::Access &&
                 std::ranges::any_of(producer.roots, [&](const NestRoot& p) { return p.definition.name == e->tensor; });
      });
      return found;
    });
  }

  /// Whether the outer loops of all definitions run over the same ranges, one by one, and none reads of another what is
  /// not of the same element of these.
  static bool share_elements(const Nest& first, const Nest& second) {
    const std::size_t shared = std::min(fewest_loops(first), fewest_loops(second));
    for (const NestRoot& reader : second.roots) {
      for (const NestRoot& producer : first.roots) {
        for (std::size_t k = 0; k < shared; ++k) {
          if (producer.definition.axes[producer.loops[k].axis].range !=
              reader.definition.axes[reader.loops[k].axis].range)
            return false;
        }
        if (!reads_own_element(reader, producer)) return false;
      }
    }
    return shared > 0 || (second.roots.front().loops.empty() && first.roots.front().loops.empty());
  }

  static std::size_t fewest_loops(const Nest& nest) {
    const auto count = [](const NestRoot& root) { return root.loops.size(); };
    return std::ranges::min(nest.roots | std::views::transform(count));
  }

  static bool reads_own_element(const NestRoot& reader, const NestRoot& producer) {
    bool own = true;
    visit(reader.definition.body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || e->tensor != producer.definition.name) return;
      own = own && !producer.definition.scan && producer.loops.size() <= reader.loops.size() &&
            takes_what_is_computed(reader.definition, producer.definition, e);
      for (std::size_t k = 0; own && k < producer.loops.size(); ++k)
        own = e->subscripts[producer.loops[k].axis] == Affine(Symbol::axis(reader.loops[k].axis));
    });
    return own;
  }

  /// With as many threads for an element as are cheapest, in chunks of sums and with a register tile along one or two
  /// axes if that is cheaper.
  std::optional<Nested> cheapest(const Nest& nest) const {
    std::optional<Nested> best = cheapest_team(nest);
    if (!std::ranges::any_of(nest.roots, has_sum)) return best;
    for (int tiles = 0; tiles < kTiledAxes; ++tiles) {
      std::optional<Nested> tiled = cheapest_tile(best && tiles > 0 ? best->nest : nest);
      if (!tiled || (best && best->seconds <= tiled->seconds)) break;
      best = std::move(tiled);
    }
    return best;
  }

  std::optional<Nested> cheapest_tile(const Nest& nest) const {
    std::optional<Nested> best;
    for (std::size_t k = 0; k < fewest_loops(nest); ++k) {
      if (const auto tiled = with_tile(nest, k)) keep_cheaper(best, cheapest_team(*tiled));
    }
    return best;
  }

  static bool has_sum(const NestRoot& root) {
    bool found = false;
    visit(root.definition.body, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce; });
    return found;
  }

  /// A warp and a block run the same loops, so that these are lowered once for both. If all definitions are sums,
  /// blocks may also compute chunks of them: not of integers and halves, which are rounded once, when all is summed.
  std::optional<Nested> cheapest_team(const Nest& nest) const {
    std::optional<Nested> best = cheapest_of_loops(nest, {kThread}, 0);
    if (!std::ranges::any_of(nest.roots, has_sum)) return best;
    keep_cheaper(best, cheapest_of_loops(nest, {kWarp, kBlock}, 0));
    const bool sums = std::ranges::all_of(nest.roots, [](const NestRoot& root) {
      return is_sum(root.definition) && is_stored_as_computed(root.definition.dtype);
    });
    if (sums) keep_cheaper(best, cheapest_of_loops(nest, {kBlock}, 1));
    return best;
  }

  std::optional<Nested> cheapest_of_loops(Nest nest, const std::vector<int>& teams, int chunks_depth) const {
    std::optional<Nested> best;
    nest.team = teams.front();
    nest.chunks_depth = chunks_depth;
    for (Nested& numbered : in_elements(nest)) {
      for (const int team : teams) {
        numbered.nest.team = numbered.kernel.team = team;
        numbered.seconds = seconds(numbered.kernel);
        if (!best || numbered.seconds < best->seconds) best = numbered;
      }
    }
    return best;
  }

  /// A thread computes the neighbours along an axis of all definitions, which share what they read.
  static std::optional<Nest> with_tile(Nest nest, std::size_t loop) {
    for (NestRoot& root : nest.roots) {
      if (root.loops[loop].unroll > 1) return std::nullopt;
      const auto extent = known_extent(root.definition.axes[root.loops[loop].axis].range);
      if (!extent || *extent < 2 || (*extent > kTile && *extent % kTile != 0)) return std::nullopt;
      root.loops[loop].unroll = std::min(*extent, kTile);
    }
    return nest;
  }

  /// Whether parts of it can be combined afterwards: the elements are sums, or the like, and nothing else.
  static bool is_sum(const Definition& definition) {
    return definition.body->kind == NodeKind::Reduce && definition.body->reduce < ReduceKind::LogSumExp &&
           iterations_between_dims(open(definition.body).range);
  }

  /// The elements are numbered by as many of the indices, from the outermost, as have nothing computed between them:
  /// what all iterations of an inner loop have in common is computed before it. Where that leaves some indices, threads
  /// numbered by all of them may also compute it by themselves. The seconds are still to be estimated.
  std::vector<Nested> in_elements(const Nest& nest) const {
    std::vector<Nested> found;
    const std::size_t loops = fewest_loops(nest), most = numbering_loops(nest, loops);
    std::size_t elements = most;
    while (elements > 0 && found.empty()) {
      if (auto numbered = numbered_by(nest, elements, false))
        found.push_back(std::move(*numbered));
      else
        elements = numbering_loops(nest, elements - 1);
    }
    if (elements < most) {
      if (auto by_each = numbered_by(nest, most, true)) found.push_back(std::move(*by_each));
    }
    if (loops == 0 && nest.team > kThread) {
      auto single = lowered_if_legal(nest);
      if (single && shares_a_sum(*single) && shares_chunks(*single)) found.push_back({nest, std::move(*single)});
    }
    return found;
  }

  /// The number of outermost loops, at most `count`, down to the last one that remains a loop: one whose iterations are
  /// all in one register tile is unrolled completely.
  static std::size_t numbering_loops(const Nest& nest, std::size_t count) {
    const auto is_loop = [](const NestRoot& root, std::size_t k) {
      const auto extent = known_extent(root.definition.axes[root.loops[k].axis].range);
      return root.loops[k].unroll == 1 || !extent || *extent > root.loops[k].unroll;
    };
    while (count > 0 &&
           !std::ranges::all_of(nest.roots, [&](const NestRoot& root) { return is_loop(root, count - 1); }))
      --count;
    return count;
  }

  /// By the outermost `elements` of the indices.
  std::optional<Nested> numbered_by(Nest nest, std::size_t elements, bool computes_inside) const {
    for (NestRoot& root : nest.roots) {
      for (std::size_t k = 0; k < root.loops.size(); ++k) root.loops[k].lanes = k + 1 == elements;
    }
    nest.computes_in_elements = computes_inside;
    auto kernel = lowered_if_legal(nest);
    if (!kernel || cuda_text::element_loops(*kernel).loops.empty() || !shares_rows(*kernel) || !shares_chunks(*kernel))
      return std::nullopt;
    return Nested{std::move(nest), std::move(*kernel)};
  }

  /// Loops inside of elements are for teams: single threads would not have neighbours in memory.
  static bool shares_rows(const LoweredKernel& kernel) {
    const cuda_text::KernelShape shape = cuda_text::kernel_shape(kernel);
    return shape.shared_out.empty() || (kernel.team > 1 && !shape.reductions.empty());
  }

  /// Whether blocks can take chunks of the one sum that a team shares.
  static bool shares_chunks(const LoweredKernel& kernel) {
    if (!kernel.chunks) return true;
    const cuda_text::KernelShape shape = cuda_text::kernel_shape(kernel);
    if (shape.reductions.size() != 1) return false;
    const stmt::For* outermost = shape.reductions.begin()->first;
    const Block& around = shape.vector_loop ? shape.vector_loop->body : kernel.program.body;
    return !shape.reductions.begin()->second.counted.loops.empty() &&
           std::ranges::any_of(around, [&](const Statement& s) { return std::get_if<stmt::For>(&s) == outermost; });
  }

  static bool shares_a_sum(const LoweredKernel& kernel) { return !cuda_text::kernel_shape(kernel).reductions.empty(); }

  std::optional<LoweredKernel> lowered_if_legal(const Nest& nest) const {
    try {
      return lower(fused_, nest);
    } catch (const CompileError&) {
      return std::nullopt;
    }
  }

  const FusedProgram& fused_;
  const DefinitionsOf definitions_of_;
  const GpuLimits& limits_;
  const DimValues& extents_;
  std::optional<Forms> last_;  // the next kernel may join its nests
};

}  // namespace

ScheduledProgram schedule_for_gpu(const Program& optimised, Products products, const DimValues& extents,
                                  const GpuLimits& limits) {
  const auto scheduled = [&](FusedProgram fused) {
    ScheduledProgram result;
    result.fused = std::move(fused);
    GpuLowering lowering(result.fused, limits, extents);
    lowering.lower_all(result.fused.steps, result.steps);
    result.choices = std::move(lowering.choices);
    for (const ScheduleChoice& choice : result.choices) result.objective += choice.seconds;
    return result;
  };
  const auto fused = [&](Layouts layouts) { return fuse(optimised, products, layouts, extents); };
  ScheduledProgram chosen = scheduled(fused(Layouts::chosen));
  FusedProgram row_major = fused(Layouts::row_major);
  if (row_major.layouts == chosen.fused.layouts && row_major.program == chosen.fused.program) return chosen;
  ScheduledProgram plain = scheduled(std::move(row_major));
  return plain.objective < kLayoutError * chosen.objective ? plain : chosen;
}

}  // namespace moxie
