#include "compiler/loop/row_order.h"

#include <algorithm>

#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Sums of one kernel: a quarter of a megabyte.
constexpr std::int64_t kMostSums = std::int64_t{1} << 16;
/// Vector operations of a row while which a stored sum comes back from the nearest cache: the next row needs it again.
constexpr double kSumReturns = 48;

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

/// Whether what differs between samples is read once, or once for a whole row. An element that enters some sums of a
/// row and not others is better kept in a register.
bool reads_once(const Kernel& kernel, const KernelRoot& root) {
  bool once = true;
  visit(root.body, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || !e->depends_on(kernel.sample->symbol)) return;
    const auto tells_apart = [&](const LoopIndex& loop) { return e->depends_on(loop.symbol); };
    const bool vector = tells_apart(*kernel.vector);
    const auto as_vector = [&](const LoopIndex& loop) { return tells_apart(loop) == vector; };
    once = once && std::ranges::all_of(root.locals, as_vector);
  });
  return once;
}

bool walks(const Kernel& kernel, const KernelRoot& root) {
  const auto moved = [&](const LoopIndex& loop) { return mentions(loop.range, kernel.vector->symbol); };
  return root.body->height == 0 && std::ranges::none_of(root.locals, moved) &&
         (!root.accumulate || reads_once(kernel, root));
}

/// Vector operations of one element of each root.
double cost_of(const Kernel& kernel) {
  double total = 0;
  bool draws = false;
  for (const KernelRoot& root : kernel.roots) {
    total += cost(root.body);
    visit(root.body, [&](const Expr& e) { draws |= e->kind == NodeKind::Random; });
  }
  return draws ? total + kRandomCost : total;
}

/// Whether rows have so many vectors that their order matters, and with sums, that these do not hold up the next row.
bool has_long_rows(const Kernel& kernel, bool sums) {
  const auto extent = known_extent(kernel.vector->range);
  if (!extent) return true;
  const double vectors = static_cast<double>(*extent) / kAssumedLanes;
  return vectors > 1 && (!sums || vectors * cost_of(kernel) >= kSumReturns);
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
  if (sums > kMostSums || !has_long_rows(result, sums > 0)) return std::nullopt;
  return result;
}

}  // namespace moxie
