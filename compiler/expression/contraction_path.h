#pragma once
// In which order a sum over several indices of a product of several tensors is computed: two factors at a time, with
// intermediate results, as opt_einsum does (Smith and Gray, 2018).
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace moxie {

/// Indices by number, as a set of bits.
using IndexSet = std::uint64_t;

/// A sum over all indices that the result does not have of a product of factors that each depend on some indices.
struct Contraction {
  std::vector<IndexSet> factors;
  IndexSet result = 0;
  std::vector<double> extents;  // of each index
};

/// Operands are the factors in their order, then the results of the steps in theirs.
struct ContractionPath {
  std::vector<std::pair<std::size_t, std::size_t>> steps;
  double cost = 0;  // multiply-adds, with the traffic of intermediate results
};

/// The elements of a tensor over these indices.
double elements_over(IndexSet indices, const std::vector<double>& extents);
/// What each operand of the path depends on. Two operands lose the indices that nothing else needs.
std::vector<IndexSet> operands_of(const Contraction& contraction, const ContractionPath& path);
/// Leaves each factor the indices that others or the result have, too: it is summed over its own alone, first. What
/// that costs, with the traffic of what is left.
double lose_own_indices(Contraction& contraction);
/// The cheapest order without an intermediate result of more than `room` elements: the best of all for up to
/// kMaxExactFactors factors, and one that is made step by step for more. Nothing if there is no such order.
std::optional<ContractionPath> cheapest_path(const Contraction& contraction, double room);
inline constexpr std::size_t kMaxExactFactors = 9;

/// Intermediate results are worth their memory where they save at least this much of the work.
inline constexpr double kMinPathGain = 2;
/// The elements that an intermediate result may have beside tensors of which the largest has so many.
double room_beside(double largest_tensor);

}  // namespace moxie
