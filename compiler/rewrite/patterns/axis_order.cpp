#include "compiler/rewrite/patterns/axis_order.h"

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/library_product.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// Iterations of the loops around elements of the tensor that `counts(access, scope)`.
template <class Counts>
double count_loads(const Definition& reader, const std::string& tensor, const Counts& counts) {
  double loads = 0;
  rewrite_bottom_up(reader.body, Scope::of(reader), [&](const Expr& e, const Scope& scope) {
    if (e->kind != NodeKind::Access || e->tensor != tensor || !counts(e, scope)) return e;
    double iterations = 1;
    for (const auto& [symbol, range] : scope.open) iterations *= longest_extent(range, scope);
    loads += iterations;
    return e;
  });
  return loads;
}

}  // namespace

bool may_be_permuted(const Definition& definition) {
  if (definition.scan || definition.recomputed || definition.axes.size() < 2 ||
      definition.axes.size() > kMaxOrderedAxes)
    return false;
  bool is_plain = std::ranges::all_of(definition.axes, is_dense);
  visit(definition.body,
        [&](const Expr& e) { is_plain &= e->kind != NodeKind::Random && e->kind != NodeKind::LinearAlgebra; });
  return is_plain;
}

Expr permuted_access(const std::string& tensor, const AxisOrder& order, const Expr& access) {
  std::vector<Affine> subscripts;
  for (const std::uint32_t axis : order) subscripts.push_back(access->subscripts[axis]);
  return tensor_access(tensor, std::move(subscripts), access->args);
}

std::map<std::string, int> read_counts(const Expr& expr) {
  std::map<std::string, int> reads;
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) ++reads[e->tensor];
  });
  return reads;
}

bool reads_as_matrix(const Expr& expr, const std::string& tensor) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::LinearAlgebra && read_counts(e).contains(tensor); });
  return found;
}

double loads_of(const Definition& reader, const std::string& tensor) {
  return count_loads(reader, tensor, [](const Expr&, const Scope&) { return true; });
}

double loads_across(const Program& program, const Definition& reader, const std::string& tensor) {
  const auto scatter = scatter_of(program, reader);
  const std::size_t axes = reader.axes.size(), scattered = scatter ? scatter->loops.size() : 0;
  return count_loads(reader, tensor, [&](const Expr& e, const Scope& scope) {
    if (e->subscripts.empty()) return false;
    for (std::size_t k = 0; k < scope.open.size(); ++k) {
      const bool lies_along = k + 1 == axes || k >= axes + scattered;
      if (lies_along && e->subscripts.back().mentions(scope.open[k].first)) return false;
    }
    return true;
  });
}

Definition with_reads_of(const std::string& tensor, const std::string& other, const AxisOrder& order,
                         Definition reader) {
  reader.body = rewrite_bottom_up(reader.body, {}, [&](const Expr& e, const Scope&) {
    const bool is_read = e->kind == NodeKind::Access && e->tensor == tensor;
    return is_read ? permuted_access(other, order, e) : e;
  });
  return reader;
}

}  // namespace moxie
