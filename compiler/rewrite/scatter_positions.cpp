#include "compiler/ir/functions.h"
#include "compiler/ir/reductions.h"
#include "compiler/rewrite/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scatter.h"

namespace moxie {
namespace {

/// The element under the conditions that leave others out, with `f` applied where they hold, and `otherwise` where not.
template <class F>
Expr under_masks(const Expr& element, double left_out, double otherwise, const F& f) {
  if (!is_call(element, "where") || !element->args[2]->is_constant(left_out)) return f(element);
  return call("where", {element->args[0], under_masks(element->args[1], left_out, otherwise, f), constant(otherwise)});
}

/// Whether what a kernel computes again has the same bits: an input's element. Others may be rounded otherwise there.
bool is_exact(const Program& program, const Expr& element) {
  return element->kind == NodeKind::Access && program.find_input(element->tensor);
}

/// argmax[s](where(idx[s] == v, e[s], -inf)) of an input e: the largest element m[v], and the smallest of the positions
/// that hold it. Where all elements are left out, or as small as these, the first of them is the position.
std::optional<Expr> scattered_position(Program& known, const Definition& user, const Expr& search, const Scope& scope) {
  const auto extremum = search->kind == NodeKind::Reduce ? extremum_of(search->reduce) : std::nullopt;
  if (!extremum || !has_fixed_extent(search->range)) return std::nullopt;
  const OpenedReduce opened = open(search);
  const Expr best = reduce(*extremum, opened.index, opened.range, opened.body);
  bool exact = false;
  const double nothing = neutral_value(*extremum), nowhere = neutral_value(ReduceKind::Min);
  under_masks(opened.body, nothing, nowhere, [&](const Expr& element) {
    exact = is_exact(known, element);
    return element;
  });
  if (!exact || !worthwhile_scatter(known, best, scope)) return std::nullopt;
  auto part = extract(known, scope, best, user.name + ".best", scope.dtype);
  if (!part) return std::nullopt;
  const Expr held = add_part(known, std::move(*part), user);
  const Expr holders = under_masks(opened.body, nothing, nowhere, [&](const Expr& element) {
    const Expr holds = call("or", {call("==", {element, held}), call("!=", {element, element})});
    return call("where", {holds, opened.position, constant(nowhere)});
  });
  const Affine extent = opened.range.highs[0].value + Affine(1);
  const Expr first = substitute(opened.position, {{opened.index, Affine(0)}});
  const Expr first_of_all = call("where", {call(">=", {index_value(extent), constant(1)}), first, constant(nowhere)});
  return call("where", {call("==", {held, constant(nothing)}), first_of_all,
                        reduce(ReduceKind::Min, opened.index, opened.range, holders)});
}

}  // namespace

Program scatter_positions(const Program& program) {
  if (!has_integers(program)) return program;
  return split_bodies(program, [](Program& known, const Definition& user) {
    return rewrite_top_down(user.body, Scope::of(user), [&](const Expr& expr, const Scope& scope) {
      return scattered_position(known, user, expr, scope);
    });
  });
}

}  // namespace moxie
