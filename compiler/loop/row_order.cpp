#include "compiler/loop/row_order.h"

#include <algorithm>

#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// Sums of one kernel: a quarter of a megabyte.
constexpr std::int64_t kMostSums = std::int64_t{1} << 16;

bool has_loops(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce || e->kind == NodeKind::LinearAlgebra; });
  return found;
}

/// Sums at the top of a summand become loops of the root.
KernelRoot with_open_sums(KernelRoot root) {
  while (root.accumulate == ReduceKind::Sum && root.body->kind == NodeKind::Reduce &&
         root.body->reduce == ReduceKind::Sum) {
    const OpenedReduce sum = open(root.body);
    root.locals.push_back({sum.index, sum.range, ""});
    root.body = sum.body;
  }
  return root;
}

/// Elements of the root's tensor, if they are known.
std::optional<std::int64_t> count_elements(const Definition& definition) {
  std::int64_t count = 1;
  for (const AxisDecl& axis : definition.axes) {
    if (!axis.extent.is_constant() || axis.extent.constant() > kMostSums) return std::nullopt;
    count = std::min(checked_mul(count, axis.extent.constant()), kMostSums + 1);
  }
  return count;
}

bool walks(const Kernel& kernel, const KernelRoot& root) {
  const auto moved = [&](const LoopIndex& loop) { return mentions(loop.range, kernel.vector->symbol); };
  return !has_loops(root.body) && std::ranges::none_of(root.locals, moved);
}

}  // namespace

std::optional<Kernel> in_rows(const Kernel& kernel) {
  if (!kernel.vector || !kernel.sample || kernel.reduces_vector) return std::nullopt;
  Kernel result = kernel;
  std::int64_t sums = 0;
  for (KernelRoot& root : result.roots) {
    root = with_open_sums(std::move(root));
    if (!walks(kernel, root)) return std::nullopt;
    if (!root.accumulate) continue;
    const auto elements = root.definition.scan ? std::nullopt : count_elements(root.definition);
    if (!elements) return std::nullopt;
    sums += *elements;
  }
  if (sums > kMostSums) return std::nullopt;
  return result;
}

}  // namespace moxie
