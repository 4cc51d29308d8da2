#include "compiler/ir/reductions.h"
#include "compiler/rewrite/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scatter.h"

namespace moxie {
namespace {

/// argmax[s](where(idx[s] == v, e[s], -inf)) as a definition of integers: what a kernel holds while it compares.
std::optional<Expr> scattered_position(Program& known, const Definition& user, const Expr& search, const Scope& scope) {
  if (search->kind != NodeKind::Reduce || !extremum_of(search->reduce)) return std::nullopt;
  const bool is_held = search == user.body && holds_integers(user.dtype);
  const auto scatter = is_held ? std::nullopt : worthwhile_scatter(known, search, scope);
  if (!scatter) return std::nullopt;
  auto part = extract(known, scope, search, user.name + ".at", DType::i32);
  if (!part) return std::nullopt;
  const Expr extent = index_value(scatter->loops[0].range.highs[0].value + Affine(1));
  const Expr at = add_part(known, std::move(*part), user);
  return call("where", {call(">=", {extent, 1}), at, constant(neutral_value(search->reduce))});
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
