#include "compiler/rewrite/permuted_twins.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/rewrite/cost.h"
#include "compiler/rewrite/library_product.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// Orders of more axes than these are too many to try.
constexpr std::size_t kMaxAxes = 4;
/// Multiply-adds that a kernel does in vectors of 16 while it loads one lane by itself.
constexpr double kCostOfReadingAcross = 16;
/// Multiply-adds that are worth reading across the axes at all: they take as long as a launch.
constexpr double kLeastSaving = 1e5;

/// Elements in an order that axes cannot change: nothing that depends on a scan's step, on coordinates alone, or on a
/// library's layout.
bool may_be_permuted(const Definition& definition) {
  if (definition.scan || definition.recomputed || definition.axes.size() < 2 || definition.axes.size() > kMaxAxes)
    return false;
  bool is_plain = std::ranges::all_of(definition.axes, is_dense);
  visit(definition.body,
        [&](const Expr& e) { is_plain &= e->kind != NodeKind::Random && e->kind != NodeKind::LinearAlgebra; });
  return is_plain;
}

/// How often each tensor is read.
std::map<std::string, int> read_counts(const Expr& expr) {
  std::map<std::string, int> reads;
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) ++reads[e->tensor];
  });
  return reads;
}

bool same_extents_in_some_order(const Definition& a, const Definition& b) {
  return std::ranges::is_permutation(a.axes, b.axes, {}, &AxisDecl::extent, &AxisDecl::extent);
}

/// Whether an operation of linear algebra reads the tensor.
bool reads_as_matrix(const Expr& expr, const std::string& tensor) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::LinearAlgebra && read_counts(e).contains(tensor); });
  return found;
}

/// Elements of the tensor that are read, once in every iteration of the loops around them.
double loads_of(const Definition& reader, const std::string& tensor) {
  double loads = 0;
  rewrite_bottom_up(reader.body, Scope::of(reader), [&](const Expr& e, const Scope& scope) {
    if (e->kind != NodeKind::Access || e->tensor != tensor) return e;
    double iterations = 1;
    for (const auto& [symbol, range] : scope.open) iterations *= longest_extent(range, scope);
    loads += iterations;
    return e;
  });
  return loads;
}

Definition with_reads_of(const PermutedTwins::Twin& twin, const std::string& tensor, Definition reader) {
  reader.body = rewrite_bottom_up(reader.body, {}, [&](const Expr& e, const Scope&) {
    const bool is_read = e->kind == NodeKind::Access && e->tensor == tensor;
    return is_read ? permuted_access(twin.name, twin.order, e) : e;
  });
  return reader;
}

Expr normal_form(const Algebra& algebra, const Program& program, const Definition& definition, const Expr& body) {
  Surroundings around{program, IndexDomain({})};
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    around.domain.add_range(Symbol::axis(k), definition.axes[k].range);
  return algebra.normalise(body, &around);
}

}  // namespace

Expr permuted_access(const std::string& tensor, const AxisOrder& order, const Expr& access) {
  std::vector<Affine> subscripts;
  for (const std::uint32_t axis : order) subscripts.push_back(access->subscripts[axis]);
  return tensor_access(tensor, std::move(subscripts), access->args);
}

std::optional<PermutedTwins::Twin> PermutedTwins::find(const std::vector<Definition>& earlier,
                                                       const Definition& definition) const {
  if (definition.output || !may_be_permuted(definition)) return std::nullopt;
  const auto reads = read_counts(definition.body);
  for (const Definition& other : earlier) {
    if (other.dtype != definition.dtype || other.body->height != definition.body->height ||
        (definition.domain != ValueDomain::Any && other.domain != definition.domain) || !may_be_permuted(other) ||
        !same_extents_in_some_order(other, definition) || read_counts(other.body) != reads)
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
    } else if (!library_product(algebra_, program_, with_reads_of(twin, definition.name, reader))) {
      return false;
    }
  }
  const double saving = assumed_size(definition.axes) * cost(definition.body);
  return saving >= kLeastSaving && loads * kCostOfReadingAcross <= saving;
}

}  // namespace moxie
