#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// The element below the masks that leave others out.
Expr masked_element(Expr expr, double left_out) {
  while (is_mask(expr, left_out)) expr = expr->args[1];
  return expr;
}

/// The same masks around another value, with `otherwise` for what they leave out.
Expr under_masks(const Expr& masked, double left_out, const Expr& value, double otherwise) {
  if (!is_mask(masked, left_out)) return value;
  return call("where",
              {masked->args[0], under_masks(masked->args[1], left_out, value, otherwise), constant(otherwise)});
}

/// A position where a search over 0 <= i < extent has elements.
Expr where_any(const Affine& extent, const Expr& position) {
  return call("where", {call(">=", {index_value(extent), 1}), position, constant(neutral_value(ReduceKind::Min))});
}

/// argmax[s](where(idx[s] == v, e[s], -inf)) of an input e: the largest element m[v], which a gradient has computed
/// already, and the smallest of the positions that hold it. Where all elements are left out, or as small as these, the
/// first of them is the position. What a kernel computes again may be rounded otherwise there, and is not looked for.
std::optional<Expr> position_of_held(Program& known, const Definition& user, const Expr& search, const Scope& scope) {
  const OpenedReduce opened = open(search);
  const ReduceKind extremum = *extremum_of(search->reduce);
  const double nothing = neutral_value(extremum), nowhere = neutral_value(ReduceKind::Min);
  const Expr element = masked_element(opened.body, nothing);
  const bool is_input = element->kind == NodeKind::Access && known.find_input(element->tensor);
  if (!is_input || !has_fixed_extent(search->range)) return std::nullopt;
  auto part = extract(known, scope, reduce(extremum, opened.index, opened.range, opened.body), user.name + ".best",
                      scope.dtype);
  if (!part) return std::nullopt;
  const Expr held = add_part(known, std::move(*part), user);
  const Expr holds = call("or", {call("==", {element, held}), call("!=", {element, element})});
  const Expr holders =
      under_masks(opened.body, nothing, call("where", {holds, opened.position, constant(nowhere)}), nowhere);
  auto holder = extract(known, scope, reduce(ReduceKind::Min, opened.index, opened.range, holders), user.name + ".at",
                        scope.dtype);
  if (!holder) return std::nullopt;
  const Expr first = substitute(opened.position, {{opened.index, Affine(0)}});
  return call("where",
              {call("==", {held, constant(nothing)}), where_any(opened.range.highs[0].value + Affine(1), first),
               add_part(known, std::move(*holder), user)});
}

/// argmax[s](where(idx[s] == v, e[s], -inf)) as a definition of integers: what a kernel holds while it compares.
std::optional<Expr> scattered_position(Program& known, const Definition& user, const Expr& search, const Scope& scope) {
  if (search->kind != NodeKind::Reduce || !extremum_of(search->reduce)) return std::nullopt;
  const bool is_held = search == user.body && holds_integers(user.dtype);
  const auto scatter = is_held ? std::nullopt : worthwhile_scatter(known, search, scope);
  if (!scatter) return std::nullopt;
  if (const auto position = position_of_held(known, user, search, scope)) return position;
  auto part = extract(known, scope, search, user.name + ".at", DType::i32);
  if (!part) return std::nullopt;
  return where_any(scatter->loops[0].range.highs[0].value + Affine(1), add_part(known, std::move(*part), user));
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
