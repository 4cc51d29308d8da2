#include "compiler/expression/contraction_path.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace moxie {
namespace {

/// An intermediate result has at most as many elements as this times the largest tensor, or kSmallResult.
constexpr double kRoomForResult = 4;
constexpr double kSmallResult = 1 << 20;
/// Multiply-adds that storing an element of an intermediate result and loading it again take.
constexpr double kTraffic = 4;

/// What is left of the union of two operands, once indices that neither the others nor the result have are summed over.
IndexSet kept(IndexSet both, IndexSet others, const Contraction& contraction) {
  return both & (others | contraction.result);
}

double step_cost(IndexSet both, IndexSet left_over, bool is_last, const Contraction& contraction) {
  const double work = elements_over(both, contraction.extents);
  return is_last ? work : work + kTraffic * elements_over(left_over, contraction.extents);
}

/// The best order of every subset of the factors, from the best orders of its parts.
class ExactSearch {
 public:
  ExactSearch(const Contraction& contraction, double room) : contraction_(contraction), room_(room) {
    const std::size_t subsets = std::size_t{1} << contraction.factors.size();
    best_.resize(subsets);
    for (std::size_t subset = 1; subset < subsets; ++subset) solve(subset);
  }

  std::optional<ContractionPath> path() {
    if (!std::isfinite(best_.back().cost)) return std::nullopt;
    ContractionPath path{{}, best_.back().cost};
    append(best_.size() - 1, path);
    return path;
  }

 private:
  struct Best {
    double cost = HUGE_VAL;
    std::size_t part = 0;  // one of the two that are multiplied last
    IndexSet indices = 0;
  };

  IndexSet indices_of(std::size_t subset) const {
    IndexSet inside = 0, outside = 0;
    for (std::size_t k = 0; k < contraction_.factors.size(); ++k)
      ((subset >> k & 1) != 0 ? inside : outside) |= contraction_.factors[k];
    return kept(inside, outside, contraction_);
  }

  void solve(std::size_t subset) {
    Best& best = best_[subset];
    if (std::has_single_bit(subset)) {
      best = {0, 0, contraction_.factors[static_cast<std::size_t>(std::countr_zero(subset))]};
      return;
    }
    best.indices = indices_of(subset);
    const bool is_last = subset + 1 == best_.size();
    if (!is_last && elements_over(best.indices, contraction_.extents) > room_) return;
    // Each pair of parts once: the one with the highest factor is `part`.
    for (std::size_t part = (subset - 1) & subset; part > (subset ^ part); part = (part - 1) & subset) {
      const Best& a = best_[part];
      const Best& b = best_[subset ^ part];
      const double cost = a.cost + b.cost + step_cost(a.indices | b.indices, best.indices, is_last, contraction_);
      if (cost < best.cost) best.cost = cost, best.part = part;
    }
  }

  /// Appends the steps that compute the subset; returns its operand.
  std::size_t append(std::size_t subset, ContractionPath& path) {
    if (std::has_single_bit(subset)) return static_cast<std::size_t>(std::countr_zero(subset));
    const std::size_t second = append(subset ^ best_[subset].part, path);
    const std::size_t first = append(best_[subset].part, path);
    path.steps.emplace_back(first, second);
    return contraction_.factors.size() + path.steps.size() - 1;
  }

  const Contraction& contraction_;
  double room_;
  std::vector<Best> best_;
};

/// Step by step the pair whose product takes the least memory beyond that of its operands, then the least work.
std::optional<ContractionPath> greedy_path(const Contraction& contraction, double room) {
  struct Operand {
    std::size_t number;
    IndexSet indices;
  };
  std::vector<Operand> operands;
  for (const IndexSet factor : contraction.factors) operands.push_back({operands.size(), factor});
  ContractionPath path;
  while (operands.size() > 1) {
    std::pair<double, double> least(HUGE_VAL, HUGE_VAL);
    std::size_t first = 0, second = 0;
    for (std::size_t a = 0; a < operands.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        IndexSet others = 0;
        for (std::size_t k = 0; k < operands.size(); ++k) others |= k == a || k == b ? 0 : operands[k].indices;
        const IndexSet both = operands[a].indices | operands[b].indices;
        const double size = elements_over(kept(both, others, contraction), contraction.extents);
        if (operands.size() > 2 && size > room) continue;
        const double freed = elements_over(operands[a].indices, contraction.extents) +
                             elements_over(operands[b].indices, contraction.extents);
        const std::pair measure(size - freed, elements_over(both, contraction.extents));
        if (measure < least) least = measure, first = a, second = b;
      }
    }
    if (first == second) return std::nullopt;
    IndexSet others = 0;
    for (std::size_t k = 0; k < operands.size(); ++k) others |= k == first || k == second ? 0 : operands[k].indices;
    const IndexSet both = operands[first].indices | operands[second].indices;
    const IndexSet left_over = kept(both, others, contraction);
    path.cost += step_cost(both, left_over, operands.size() == 2, contraction);
    path.steps.emplace_back(operands[first].number, operands[second].number);
    operands.push_back({contraction.factors.size() + path.steps.size() - 1, left_over});
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(first));
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
  }
  return path;
}

}  // namespace

double elements_over(IndexSet indices, const std::vector<double>& extents) {
  double extent = 1;
  for (; indices != 0; indices &= indices - 1) extent *= extents[static_cast<std::size_t>(std::countr_zero(indices))];
  return extent;
}

std::vector<IndexSet> operands_of(const Contraction& contraction, const ContractionPath& path) {
  std::vector<IndexSet> operands = contraction.factors;
  std::vector<bool> used(contraction.factors.size() + path.steps.size());
  for (const auto& [first, second] : path.steps) {
    used[first] = used[second] = true;
    IndexSet others = 0;
    for (std::size_t k = 0; k < operands.size(); ++k) others |= used[k] ? 0 : operands[k];
    operands.push_back(kept(operands[first] | operands[second], others, contraction));
  }
  return operands;
}

double lose_own_indices(Contraction& contraction) {
  double cost = 0;
  const std::vector<IndexSet> factors = contraction.factors;
  for (std::size_t k = 0; k < factors.size(); ++k) {
    IndexSet others = 0;
    for (std::size_t other = 0; other < factors.size(); ++other) others |= other == k ? 0 : factors[other];
    const IndexSet left_over = kept(factors[k], others, contraction);
    if (left_over != factors[k]) cost += step_cost(factors[k], left_over, false, contraction);
    contraction.factors[k] = left_over;
  }
  return cost;
}

double room_beside(double largest_tensor) { return std::max(kRoomForResult * largest_tensor, kSmallResult); }

std::optional<ContractionPath> cheapest_path(const Contraction& contraction, double room) {
  if (contraction.factors.size() <= kMaxExactFactors) return ExactSearch(contraction, room).path();
  return greedy_path(contraction, room);
}

}  // namespace moxie
