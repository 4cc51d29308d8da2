#include "compiler/fuse/time_axes.h"

#include <algorithm>

#include "compiler/program/index_domain.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

std::vector<OpenedReduce> open_loops(Expr sum) {
  std::vector<OpenedReduce> loops;
  while (is_sum(sum)) {
    loops.push_back(open(sum));
    sum = loops.back().body;
  }
  return loops;
}

/// The subscript in time of every access to a tensor that has an axis of time.
std::vector<Affine> times_read(const TimedProgram& timed, const Expr& expr) {
  std::vector<Affine> times;
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    if (const auto axis = timed.axes.find(e->tensor); axis != timed.axes.end())
      times.push_back(e->subscripts[axis->second]);
  });
  return times;
}

bool is_near(const Affine& time, Symbol now) { return (time - Affine(now)).is_constant(); }

/// The loop whose index is the time of all that is read, if there is one.
std::optional<std::size_t> loop_over_time(const TimedProgram& timed, const std::vector<OpenedReduce>& loops) {
  if (loops.empty()) return std::nullopt;
  const std::vector<Affine> times = times_read(timed, loops.back().body);
  if (times.empty()) return std::nullopt;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    if (std::ranges::all_of(times, [&](const Affine& time) { return is_near(time, loops[k].index); })) return k;
  }
  return std::nullopt;
}

/// What a definition computes at one step, and the symbol of the step; no symbol for one without time.
struct OneStep {
  Expr body;
  std::optional<Symbol> now = {};
};

OneStep at_its_time(const TimedProgram& timed, const Definition& definition) {
  if (timed.is_sum(definition.name)) {
    const OpenedSum sum = open_sum(timed, definition.body);
    return {sum.summand(), sum.loops[sum.time].index};
  }
  const auto axis = timed.axes.find(definition.name);
  if (axis == timed.axes.end()) return {definition.body};
  return {definition.body, Symbol::axis(axis->second)};
}

/// Finds axes of time from first to last definition, with sums over time in definitions of their own.
class TimeAxes {
 public:
  TimeAxes(const Program& program, const Clock& clock, const std::set<std::string>& untimed) : untimed_(untimed) {
    timed_.program = program;
    timed_.clock = clock;
  }

  TimedProgram run() {
    for (const Definition& definition : timed_.program.definitions) {
      if (timed_.steps(definition)) timed_.axes[definition.name] = 0;
    }
    const Program given = timed_.program;
    std::vector<Definition>& definitions = timed_.program.definitions;
    definitions.clear();
    known_ = given;
    for (const std::span<const Definition> group : groups_of(given)) {
      std::vector<Definition> members(group.begin(), group.end());
      for (Definition& member : members) member.body = with_sums_apart(member);
      if (const auto axis = members[0].scan ? std::nullopt : axis_by_reads(members[0]))
        timed_.axes[members[0].name] = *axis;
      std::ranges::move(members, std::back_inserter(definitions));
    }
    find_axes_by_readers();
    return std::move(timed_);
  }

 private:
  Expr with_sums_apart(const Definition& user) {
    return rewrite_top_down(with_sums_for_elements(user.body), Scope::of(user),
                            [&](const Expr& e, const Scope& scope) -> std::optional<Expr> {
                              const bool is_of_step = user.scan && e->depends_on(Symbol::axis(0));
                              if (is_of_step || !is_sum(e) || !is_over_time(e, scope)) return std::nullopt;
                              auto part = extract(known_, scope, e, user.name + ".over_time", scope.dtype);
                              if (!part || untimed_.contains(part->definition.name)) return std::nullopt;
                              part->definition.line = user.line;
                              known_.definitions.push_back(part->definition);
                              timed_.sums.insert(part->definition.name);
                              timed_.program.definitions.push_back(std::move(part->definition));
                              return part->read;
                            });
  }

  /// Whether the sum has an index of time, and none of its steps lies outside of time.
  bool is_over_time(const Expr& sum, const Scope& scope) const {
    const std::vector<OpenedReduce> loops = open_loops(sum);
    const auto time = loop_over_time(timed_, loops);
    if (!time) return false;
    IndexDomain domain({});
    for (const auto& [symbol, range] : scope.open) domain.add_range(symbol, range);
    for (const OpenedReduce& loop : loops) domain.add_range(loop.index, loop.range);
    const Affine step = loops[*time].index;
    return domain.prove_nonnegative(step) == Proof::Holds &&
           domain.prove_nonnegative(timed_.clock.steps - Affine(1) - step) == Proof::Holds;
  }

  /// x[T-1] as the sum of those x[t] for which t is T-1.
  Expr with_sums_for_elements(const Expr& expr) const {
    const Expr inner = map_children(expr, [&](const Expr& child) { return with_sums_for_elements(child); });
    const auto axis = inner->kind == NodeKind::Access ? timed_.axes.find(inner->tensor) : timed_.axes.end();
    if (axis == timed_.axes.end() || !is_fixed(inner->subscripts[axis->second])) return inner;
    const Symbol step = Symbol::fresh();
    std::vector<Affine> subscripts = inner->subscripts;
    const Expr is_here = call("==", {index_value(step), index_value(subscripts[axis->second])});
    subscripts[axis->second] = step;
    return reduce(ReduceKind::Sum, step, Range::extent(timed_.clock.steps),
                  call("where", {is_here, tensor_access(inner->tensor, subscripts, inner->args), constant(0)}));
  }

  static bool is_fixed(const Affine& time) {
    return std::ranges::all_of(time.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
  }

  /// The axis along which all that it reads of time is near, if it runs over all of time.
  std::optional<std::uint32_t> near_axis(const Definition& definition) const {
    const std::vector<Affine> times = times_read(timed_, definition.body);
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      const auto near = [&](const Affine& time) { return is_near(time, Symbol::axis(k)); };
      if (is_time(definition.axes[k]) && !times.empty() && std::ranges::all_of(times, near)) return k;
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> axis_by_reads(const Definition& definition) const {
    return untimed_.contains(definition.name) ? std::nullopt : near_axis(definition);
  }

  bool is_time(const AxisDecl& axis) const {
    return axis.extent == timed_.clock.steps && axis.range == Range::extent(axis.extent);
  }

  /// What only definitions with an axis of time read, at their own steps, is computed step by step, too.
  void find_axes_by_readers() {
    std::vector<Definition>& definitions = timed_.program.definitions;
    for (auto d = definitions.rbegin(); d != definitions.rend(); ++d) {
      const bool may_be = !d->scan && !d->output && !timed_.is_timed(d->name) && !timed_.is_sum(d->name) &&
                          !untimed_.contains(d->name) && times_read(timed_, d->body).empty();
      if (!may_be) continue;
      if (const auto axis = axis_by_readers(*d)) timed_.axes[d->name] = *axis;
    }
  }

  std::optional<std::uint32_t> axis_by_readers(const Definition& definition) const {
    std::set<std::uint32_t> axes;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (is_time(definition.axes[k])) axes.insert(k);
    }
    bool is_read = false;
    for (const Definition& reader : timed_.program.definitions) {
      if (axes.empty()) return std::nullopt;
      if (!reads(reader, definition.name)) continue;
      is_read = true;
      const auto [body, now] = at_its_time(timed_, reader);
      visit(body, [&, now = now](const Expr& e) {
        if (e->kind != NodeKind::Access || e->tensor != definition.name) return;
        std::erase_if(axes, [&](std::uint32_t k) { return !now || e->subscripts[k] != Affine(*now); });
      });
    }
    return is_read && !axes.empty() ? std::optional(*axes.begin()) : std::nullopt;
  }

  const std::set<std::string>& untimed_;
  TimedProgram timed_;
  Program known_;  // with all definitions
};

}  // namespace

std::optional<Clock> clock_of(const Definition& definition) {
  if (!definition.scan || !definition.scan->checkpoints) return std::nullopt;
  return Clock{definition.axes[0].name, definition.axes[0].extent, *definition.scan->checkpoints};
}

TimedProgram timed_program(const Program& program, const Clock& clock, const std::set<std::string>& untimed) {
  return TimeAxes(program, clock, untimed).run();
}

OpenedSum open_sum(const TimedProgram& timed, const Expr& sum) {
  OpenedSum opened{open_loops(sum)};
  opened.time = loop_over_time(timed, opened.loops).value_or(0);
  return opened;
}

std::optional<std::int64_t> offset_of(const TimedProgram& timed, const Expr& access, const Affine& now) {
  const Affine offset = access->subscripts[timed.axes.at(access->tensor)] - now;
  return offset.is_constant() ? std::optional(offset.constant()) : std::nullopt;
}

std::set<TimedRead> timed_reads(const TimedProgram& timed, const Definition& definition) {
  const auto [body, now] = at_its_time(timed, definition);
  std::set<TimedRead> found;
  visit(body, [&, now = now](const Expr& e) {
    if (e->kind != NodeKind::Access || !timed.is_timed(e->tensor)) return;
    found.insert({e->tensor, now ? offset_of(timed, e, Affine(*now)) : std::nullopt});
  });
  return found;
}

}  // namespace moxie
