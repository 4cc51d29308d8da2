#include "compiler/loop/chunk_rows.h"

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

constexpr std::int64_t kUsualRows = 64;
constexpr std::int64_t kCostlyRows = 16;
/// Values that a chunk must compute, in all and for each element of its partial results: a tenth of a millisecond, and
/// much more than to clear, write and add up these.
constexpr double kWorthAChunk = 2e5, kWorthAnElement = 64;

class WorkEstimate {
 public:
  explicit WorkEstimate(const LoweredKernel& kernel) : kernel_(kernel) {}

  /// Vectors, or single values outside of the vector loop, that kCostlyRows rows take.
  double of(const Block& block) const {
    double total = 0;
    for (const Statement& statement : block) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      total += loop ? rounds_of(*loop) * of(loop->body) : 1;
    }
    return total;
  }

 private:
  double rounds_of(const stmt::For& loop) const {
    const double lanes = loop.vector ? kAssumedLanes : 1;
    if (starts_at(loop, kernel_.chunks)) return kCostlyRows / lanes;
    return assumed_extent(starts_at(loop, kernel_.tiles) ? kernel_.tiles->range : loop.range) / lanes;
  }

  static bool starts_at(const stmt::For& loop, const std::optional<SplitLoop>& split) {
    return split && mentions(loop.range, Symbol::dim(split->low_argument));
  }

  const LoweredKernel& kernel_;
};

/// Those of one chunk; none where a dim that is not known when compiling counts them.
std::optional<double> partial_elements(const LoweredKernel& kernel) {
  double total = 0;
  for (std::size_t k = 0; k < kernel.uses.size(); ++k) {
    if (!kernel.uses[k].partial) continue;
    double elements = 1;
    for (const Affine& extent : kernel.program.buffers[k].shape) {
      if (extent == Affine(Symbol::dim(argument::kChunks))) continue;
      if (!extent.is_constant()) return std::nullopt;
      elements *= static_cast<double>(extent.constant());
    }
    total += elements;
  }
  return total;
}

}  // namespace

std::int64_t least_chunk_rows(const LoweredKernel& kernel) {
  const auto elements = partial_elements(kernel);
  const double work = WorkEstimate(kernel).of(kernel.program.body);
  const bool is_costly = elements && work >= kWorthAChunk && work >= kWorthAnElement * *elements;
  return is_costly ? kCostlyRows : kUsualRows;
}

}  // namespace moxie
