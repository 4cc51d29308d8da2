#include "compiler/rewrite/definitions/permuted_twins.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/library_product.h"

namespace moxie {
namespace {

/// Multiply-adds that are worth reading across the axes at all: they take as long as a launch.
constexpr double kLeastSaving = 1e5;

bool same_extents_in_some_order(const Definition& a, const Definition& b) {
  return std::ranges::is_permutation(a.axes, b.axes, {}, &AxisDecl::extent, &AxisDecl::extent);
}

Expr normal_form(const Algebra& algebra, const Program& program, const Definition& definition, const Expr& body) {
  Surroundings around{program, IndexDomain({})};
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    around.domain.add_range(Symbol::axis(k), definition.axes[k].range);
  return algebra.normalise(body, &around);
}

}  // namespace

PermutedTwins::Kind PermutedTwins::kind_of(const Definition& definition) {
  return {definition.dtype, definition.body->height, read_counts(definition.body)};
}

std::optional<PermutedTwins::Twin> PermutedTwins::find(const std::vector<Definition>& earlier,
                                                       const Definition& definition) {
  for (; known_count_ < earlier.size(); ++known_count_) {
    const Definition& next = earlier[known_count_];
    if (may_be_permuted(next)) known_[kind_of(next)].push_back(known_count_);
  }
  if (definition.output || !may_be_permuted(definition)) return std::nullopt;
  const auto alike = known_.find(kind_of(definition));
  if (alike == known_.end()) return std::nullopt;
  for (const std::size_t k : alike->second) {
    const Definition& other = earlier[k];
    if ((definition.domain != ValueDomain::Any && other.domain != definition.domain) ||
        !same_extents_in_some_order(other, definition))
      continue;
    if (auto order = order_of(other, definition)) {
      Twin twin{other.name, std::move(*order)};
      if (suits_readers(twin, definition)) return twin;
    }
  }
  return std::nullopt;
}

std::optional<AxisOrder> PermutedTwins::order_of(const Definition& twin, const Definition& definition) const {
  AxisOrder order(definition.axes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    bool fits = true;
    for (std::size_t k = 0; k < order.size(); ++k) fits &= twin.axes[k].extent == definition.axes[order[k]].extent;
    if (fits && is_equal(twin, definition, order)) return order;
  } while (std::ranges::next_permutation(order).found);
  return std::nullopt;
}

bool PermutedTwins::is_equal(const Definition& twin, const Definition& definition, const AxisOrder& order) const {
  Replacement axes;
  for (std::uint32_t k = 0; k < order.size(); ++k) axes.emplace_back(Symbol::axis(order[k]), Affine(Symbol::axis(k)));
  const Expr body = substitute(definition.body, axes);
  return normal_form(algebra_, program_, twin, body) == normal_form(algebra_, program_, twin, twin.body);
}

bool PermutedTwins::suits_readers(const Twin& twin, const Definition& definition) const {
  double loads = 0;
  for (const Definition& reader : program_.definitions) {
    if (!read_counts(reader.body).contains(definition.name)) continue;
    if (reads_as_matrix(reader.body, definition.name)) return false;
    if (!library_product(algebra_, program_, reader)) {
      loads += loads_of(reader, definition.name);
    } else if (!library_product(algebra_, program_, with_reads_of(definition.name, twin.name, twin.order, reader))) {
      return false;
    }
  }
  const double saving = assumed_size(definition.axes) * cost(definition.body);
  return saving >= kLeastSaving && loads * kCostOfReadingAcross <= saving;
}

}  // namespace moxie
