#include <algorithm>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// Lanes of the widest vectors.
constexpr std::int64_t kShortestRow = 16;

/// sum[s](sum[i](... summand)): the loops, outermost first.
struct NestedSum {
  std::vector<OpenedReduce> loops;
  Expr summand;
};

NestedSum open_sums(Expr expr) {
  NestedSum sum;
  while (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum) {
    sum.loops.push_back(open(expr));
    expr = sum.loops.back().body;
  }
  sum.summand = expr;
  return sum;
}

/// Whether rows of `index` are read once: every access that runs along the outermost loop tells all elements of the
/// sum apart, and those next to each other lie next to each other.
bool reads_rows(const NestedSum& sum, const Definition& definition, Symbol index) {
  bool reads = false, fits = true;
  visit(sum.summand, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || !e->depends_on(sum.loops.front().index)) return;
    reads = true;
    fits = fits && e->subscripts.back() == Affine(index);
    for (const OpenedReduce& loop : sum.loops) fits = fits && e->depends_on(loop.index);
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) fits = fits && e->depends_on(Symbol::axis(k));
  });
  return reads && fits;
}

/// Which of the loops runs along rows, if one does and it is not the outermost, which is shared out.
std::optional<std::size_t> row_loop(const NestedSum& sum, const Definition& definition) {
  if (sum.loops.size() < 2 || !is_long(sum.loops.front().range) || sum.summand->height > 0) return std::nullopt;
  for (std::size_t k = 1; k < sum.loops.size(); ++k) {
    const auto extent = sum.loops[k].range.as_extent();
    const bool row = extent && extent->is_constant() && extent->constant() >= kShortestRow;
    if (row && reads_rows(sum, definition, sum.loops[k].index)) return k;
  }
  return std::nullopt;
}

}  // namespace

/// y[c] = sum[s,i,j](x[s,c,i,j]) -> part[c,j] = sum[s,i](x[s,c,i,j]), y[c] = sum[j](part[c,j]): with j in vector lanes
/// every lane has a sum of its own, and rows are read as they lie.
Program split_row_sums(const Program& program) {
  Program result = program;
  result.definitions.clear();
  for (Definition definition : program.definitions) {
    const NestedSum sum = open_sums(definition.body);
    const auto row = definition.scan ? std::nullopt : row_loop(sum, definition);
    if (row) {
      Expr columns = sum.summand;
      for (std::size_t k = sum.loops.size(); k-- > 0;) {
        if (k != *row) columns = reduce(ReduceKind::Sum, sum.loops[k].index, sum.loops[k].range, columns);
      }
      const OpenedReduce& loop = sum.loops[*row];
      const Scope scope = Scope::of(definition).with(loop.index, loop.range);
      if (auto part =
              extract(program, scope, columns, definition.name + ".columns", computed_dtype(definition.dtype))) {
        part->definition.line = definition.line;
        definition.body = reduce(ReduceKind::Sum, loop.index, loop.range, part->read);
        result.definitions.push_back(std::move(part->definition));
      }
    }
    result.definitions.push_back(std::move(definition));
  }
  return result;
}

}  // namespace moxie
