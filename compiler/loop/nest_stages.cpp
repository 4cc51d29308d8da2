// NestBuilder: what is computed in one loop for others, and kept in scratch for them.
#include <algorithm>

#include "compiler/loop/kept_values.h"
#include "compiler/loop/nest_builder.h"
#include "compiler/loop/staging.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// Whether all loads stay inside their tensors for the whole extent, which inner loops need not run through.
bool NestBuilder::is_safe_everywhere(const Staged& staged) const {
  IndexDomain domain = domain_at(frames_.size() - 1);
  domain.add_range(staged.placeholder, staged.range);
  return InsideProof(source_, Inside::Storage).holds_within(staged.expr, domain);
}

bool NestBuilder::reads_inside(const Expr& expr) const {
  return InsideProof(source_, Inside::Storage).holds_unguarded(expr, domain_at(frames_.size() - 1));
}

/// Scratch that stays in the nearest cache: of values that differ between lanes, and of others.
std::int64_t NestBuilder::longest_stage() const {
  constexpr std::int64_t kLongestVarying = 128, kLongestUniform = 4096;
  return lanes_are_chosen_ && !has_vector_loop() ? kLongestUniform : kLongestVarying;
}

/// With every loop variable where it makes the expression largest; nothing where dims or several bounds decide.
std::optional<std::int64_t> NestBuilder::largest_value(const Affine& affine) const {
  for (const auto& [symbol, coefficient] : affine.terms()) {
    const auto frame = std::ranges::find(frames_, symbol, &Frame::index);
    if (symbol.is_dim() || frame == frames_.end()) return std::nullopt;
    const auto piece = std::ranges::find(pieces_, frame->range, &std::pair<Range, Range>::first);
    const Range& range = piece == pieces_.end() ? frame->range : piece->second;
    const std::vector<Bound>& ends = coefficient > 0 ? range.highs : range.lows;
    if (ends.size() != 1 || ends.front().divisor != 1) return std::nullopt;
    const Affine& end = ends.front().value;
    return largest_value(affine.substitute([&](Symbol s) { return s == symbol ? &end : nullptr; }));
  }
  return affine.constant();
}

/// Computes beforehand what inner loops would compute again in every round of a loop over `index`.
void NestBuilder::stage(const std::vector<Work>& works, Symbol index) {
  if (computes_in_elements_) return;  // threads compute by themselves what lanes have in common
  const StageScope scope{[this](Symbol symbol) { return is_known(symbol); },
                         [this](const Affine& affine) { return largest_value(affine); }, longest_stage(), source_};
  for (const Work& work : works) {
    for (Staged& staged : find_staged(work.body, work.type, index, scope)) {
      const auto same = [&](const Stage& stage) {
        const bool covers =
            stage.staged.range == staged.range ||
            (stage.staged.range == Range::extent(stage.staged.extent) && stage.staged.extent >= staged.extent);
        return covers && compute_the_same(stage.staged, staged);
      };
      if (is_varying(staged.range) && !is_varying(staged.expr)) staged.range = Range::extent(staged.extent);
      if (std::ranges::any_of(stages_, same) || !is_safe_everywhere(staged)) continue;
      const ArrayId array = new_array("stage", staged.type, {staged.extent}, is_varying(staged.expr));
      open_loop(staged.placeholder, staged.range, {},
                {.vector = lanes_are_chosen_ && !has_vector_loop(),
                 .parallel = true,
                 .comment = "beforehand, for " + work.source});
      count_factors(staged.expr);
      const ValueId value = emit(staged.expr, staged.type);
      append(stmt::StoreArray{array, {resolve(staged.placeholder)}, value});
      close_loop();
      stages_.push_back({std::move(staged), array});
    }
  }
}

// ---- Rows: what one loop computes for the loops over the same range that follow ----

/// What is left to do of a work in its outermost loop, which is over `index`.
Work NestBuilder::inside_first_loop(Work work, Symbol index) {
  const Symbol local = work.loops.front().symbol;
  work.loops.erase(work.loops.begin());
  if (local == index) return work;
  const Affine replacement(index);
  const auto lookup = [&](Symbol s) { return s == local ? &replacement : nullptr; };
  for (LoopIndex& loop : work.loops) loop.range = loop.range.substitute(lookup);
  for (Affine& subscript : work.subscripts) subscript = subscript.substitute(lookup);
  work.body = substitute(work.body, {{local, index}});
  return work;
}

/// What is still to be done over this range, once the group is.
NestBuilder::Later NestBuilder::later_over(const Range& range, const std::vector<Reduction>& ready,
                                           const std::vector<Reduction>& pending, const std::vector<Work*>& ready_works,
                                           const std::vector<Work*>& looping) const {
  Later later;
  for (const Reduction& r : pending) {
    const bool now = std::ranges::any_of(ready, [&](const Reduction& other) { return r.is_same(other); });
    if (!now && !r.ranged && is_part_of(r.expr->range, range)) later.reductions.push_back(r);
  }
  for (const Work* work : looping) {
    const bool now = std::ranges::find(ready_works, work) != ready_works.end();
    if (!now && is_part_of(work->loops.front().range, range)) later.works.push_back(*work);
  }
  return later;
}

/// How many elements scratch for the values of a loop has. Where bounds of a triangle move the end of the range, a
/// tensor tells it that is read at the index itself.
std::optional<std::int64_t> NestBuilder::extent_of_row(const Expr& value, Symbol index, const Range& range) const {
  if (const auto extent = known_extent(range)) return extent;
  IndexDomain domain = domain_at(frames_.size() - 1);
  domain.add_range(index, range);
  if (domain.prove_nonnegative(Affine(index)) != Proof::Holds) return std::nullopt;
  std::optional<std::int64_t> least;
  const auto note = [&](std::int64_t extent) { least = std::min(least.value_or(extent), extent); };
  for (const Bound& high : range.highs) {
    if (const auto last = high.divisor == 1 ? largest_value(high.value) : std::nullopt) note(*last + 1);
  }
  visit(value, [&](const Expr& e) {
    for (std::size_t k = 0; k < e->subscripts.size() && e->kind == NodeKind::Access; ++k) {
      const Affine extent = source_.shape_of(e->tensor)[k];
      if (e->subscripts[k] == Affine(index) && extent.is_constant()) note(extent.constant());
    }
  });
  return least;
}

/// Rows of scratch for costly values that both the group and later loops over the whole range need. The later ones read
/// them.
std::vector<NestBuilder::Stage> NestBuilder::kept_for(const Later& later, const std::vector<Work>& now, Symbol index,
                                                      const Range& range) {
  if (!keeps_rows_ || !lanes_are_chosen_ || later.is_empty()) return {};
  std::vector<TypedExpr> bodies, later_bodies;
  for (const Work& work : now) bodies.push_back({work.body, work.type});
  for (const Reduction& reduction : later.reductions) {
    const Work work = work_of(reduction, index);
    later_bodies.push_back({work.body, work.type});
  }
  for (const Work& work : later.works) later_bodies.push_back({inside_first_loop(work, index).body, work.type});
  const auto is_ready = [&](const Expr& reduction, ValueType type) { return find_value(reduction, type).has_value(); };
  const auto is_available = [&](Symbol symbol) { return symbol == index || is_known(symbol); };
  std::vector<Stage> kept;
  for (const TypedExpr& value : values_to_keep(bodies, later_bodies, index, {is_available, is_ready, source_})) {
    const auto extent = extent_of_row(value.expr, index, range);
    if (!extent || *extent > longest_stage()) continue;
    // Lanes that are threads each run through a part of their own: none of them would fill the row for all.
    if (is_varying(range) && !is_varying(value.expr)) continue;
    Staged staged{value.expr, index, *extent, value.type, range};
    const ArrayId array = new_array("row", value.type, {*extent}, is_varying(value.expr));
    alive_.push_back(value.expr);
    kept.push_back({std::move(staged), array});
  }
  return kept;
}

}  // namespace moxie
