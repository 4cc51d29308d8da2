#include <algorithm>
#include <map>

#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// Straight-line code of more steps than this would not stay in registers.
constexpr std::int64_t kMostSteps = 32;

/// Tensors of which every step becomes a definition of its own, with the axis of the steps.
using Unrolled = std::map<std::string, std::size_t>;

struct Steps {
  std::int64_t first = 0, end = 0;
};

std::optional<Steps> few_steps(const Range& range) {
  if (range.lows.size() != 1 || range.highs.size() != 1) return std::nullopt;
  const Bound& low = range.lows[0];
  const Bound& high = range.highs[0];
  if (low.divisor != 1 || high.divisor != 1 || !low.value.is_constant() || !high.value.is_constant())
    return std::nullopt;
  const Steps steps{low.value.constant(), high.value.constant() + 1};
  return steps.end - steps.first <= kMostSteps ? std::optional(steps) : std::nullopt;
}

bool is_arithmetic(const Expr& body) {
  bool result = true;
  visit(body, [&](const Expr& e) {
    result &= e->kind == NodeKind::Constant || e->kind == NodeKind::IndexValue || e->kind == NodeKind::Access ||
              e->kind == NodeKind::Call;
  });
  return result;
}

/// The axes of a definition that pick the step of what it reads.
std::vector<std::size_t> step_axes(const Definition& definition, const Unrolled& unrolled) {
  std::vector<std::size_t> axes;
  visit(definition.body, [&](const Expr& e) {
    const auto found = e->kind == NodeKind::Access ? unrolled.find(e->tensor) : unrolled.end();
    if (found == unrolled.end()) return;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (e->subscripts[found->second].mentions(Symbol::axis(k)) && std::ranges::find(axes, k) == axes.end())
        axes.push_back(k);
    }
  });
  return axes;
}

/// Whether a step is picked by nothing but axes and by sums over few steps.
bool picks_known_steps(const Expr& expr, const Unrolled& unrolled) {
  if (expr->kind == NodeKind::LinearAlgebra) {
    bool reads = false;
    visit(expr, [&](const Expr& e) { reads |= e->kind == NodeKind::Access && unrolled.contains(e->tensor); });
    return !reads;
  }
  if (reads_by_value(expr)) {
    const auto found = unrolled.find(expr->tensor);
    if (found != unrolled.end() && expr->subscripts[found->second].mentions_value()) return false;
  }
  if (expr->kind != NodeKind::Reduce)
    return std::ranges::all_of(expr->args, [&](const Expr& arg) { return picks_known_steps(arg, unrolled); });
  const OpenedReduce opened = open(expr);
  bool picks = false;
  visit(opened.body, [&](const Expr& e) {
    const auto found = e->kind == NodeKind::Access ? unrolled.find(e->tensor) : unrolled.end();
    picks |= found != unrolled.end() && e->subscripts[found->second].mentions(opened.index);
  });
  if (picks && (expr->reduce != ReduceKind::Sum || !few_steps(expr->range))) return false;
  return picks_known_steps(opened.body, unrolled);
}

bool is_unrollable_member(const Definition& definition) {
  return !definition.output && is_arithmetic(definition.body) && few_steps(definition.axes[0].range);
}

/// Adds all definitions of a scan, which take their steps together; false where one of them must stay whole.
bool add_scan(const Program& program, std::uint32_t scan, Unrolled& unrolled) {
  for (const Definition& definition : program.definitions) {
    if (!definition.scan || definition.scan->number != scan) continue;
    if (!is_unrollable_member(definition)) return false;
    unrolled[definition.name] = 0;
  }
  return true;
}

/// Adds a definition that picks steps of what is unrolled by an axis, with its scan if it has one; false where it must
/// stay whole.
bool add_follower(const Program& program, const Definition& definition, Unrolled& unrolled) {
  if (!picks_known_steps(definition.body, unrolled)) return false;
  const auto axes = step_axes(definition, unrolled);
  if (axes.empty()) return true;
  const auto known = unrolled.find(definition.name);
  if (known != unrolled.end()) return axes.size() == 1 && axes[0] == known->second;
  if (axes.size() != 1 || definition.output || !few_steps(definition.axes[axes[0]].range)) return false;
  if (definition.scan) return axes[0] == 0 && add_scan(program, definition.scan->number, unrolled);
  unrolled[definition.name] = axes[0];
  return true;
}

/// The tensors of the scan and of all that follows its steps; nothing where one of them must stay whole. A scan joins
/// as a whole: definitions that were passed by may follow it then, so all are asked again.
std::optional<Unrolled> follow(const Program& program, std::uint32_t scan) {
  Unrolled unrolled;
  if (!add_scan(program, scan, unrolled)) return std::nullopt;
  for (std::size_t known = 0; known != unrolled.size();) {
    known = unrolled.size();
    for (const Definition& definition : program.definitions) {
      if (!add_follower(program, definition, unrolled)) return std::nullopt;
    }
  }
  return unrolled;
}

class ScanUnroller {
 public:
  ScanUnroller(const Program& program, const Unrolled& unrolled)
      : program_(program), unrolled_(unrolled), result_(program) {}

  Program run() {
    result_.definitions.clear();
    for (std::size_t k = 0; k < program_.definitions.size();) k = add_group(k);
    return std::move(result_);
  }

 private:
  /// A scan step by step, or one definition; returns where the next begins.
  std::size_t add_group(std::size_t first) {
    const Definition& leader = program_.definitions[first];
    if (!unrolled_.contains(leader.name)) {
      result_.definitions.push_back(leader);
      result_.definitions.back().body = expanded_over(leader.body, domain_of(leader));
      return first + 1;
    }
    std::size_t end = first + 1;
    while (leader.scan && end < program_.definitions.size() && program_.definitions[end].scan == leader.scan) ++end;
    const Steps steps = *few_steps(leader.axes[unrolled_.at(leader.name)].range);
    for (std::int64_t k = steps.first; k < steps.end; ++k) {
      const std::int64_t step = leader.scan && leader.scan->backwards ? steps.first + steps.end - 1 - k : k;
      for (std::size_t d = first; d < end; ++d) add_step(program_.definitions[d], step);
    }
    return end;
  }

  void add_step(const Definition& definition, std::int64_t step) {
    const std::size_t axis = unrolled_.at(definition.name);
    Replacement replacement = {{Symbol::axis(static_cast<std::uint32_t>(axis)), Affine(step)}};
    for (std::size_t k = axis + 1; k < definition.axes.size(); ++k)
      replacement.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)),
                               Affine(Symbol::axis(static_cast<std::uint32_t>(k - 1))));
    const auto lookup = [&](Symbol symbol) -> const Affine* {
      const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
      return it == replacement.end() ? nullptr : &it->second;
    };
    Definition one = definition;
    one.name = step_name(definition.name, step);
    one.scan.reset();
    one.recomputed = false;
    one.axes.erase(one.axes.begin() + static_cast<std::ptrdiff_t>(axis));
    for (AxisDecl& other : one.axes) other.range = other.range.substitute(lookup);
    one.body = expanded_over(substitute(definition.body, replacement), domain_of(one));
    result_.definitions.push_back(std::move(one));
  }

  const std::string& step_name(const std::string& tensor, std::int64_t step) {
    std::string& name = names_[{tensor, step}];
    if (name.empty()) name = unused_name(program_, tensor + "_" + std::to_string(step));
    return name;
  }

  static IndexDomain domain_of(const Definition& definition) {
    IndexDomain domain({});
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
      domain.add_range(Symbol::axis(k), definition.axes[k].range);
    return domain;
  }

  /// Over an axis of extent 0 nothing is computed, and no condition tells which of its reads exist.
  Expr expanded_over(const Expr& expr, const IndexDomain& domain) {
    return domain.is_empty() ? constant(0) : expanded(expr, domain);
  }

  /// Reads of one step each; sums over steps term by term. What a condition never admits may read steps that do not
  /// exist, such as the one before the first, and goes.
  Expr expanded(const Expr& expr, const IndexDomain& domain) {
    if (expr->kind == NodeKind::Access)
      return read_step(map_children(expr, [&](const Expr& value) { return expanded(value, domain); }));
    if (expr->kind == NodeKind::Reduce) return expanded_sum(expr, domain);
    if (is_call(expr, "where")) return expanded_where(expr, domain);
    return map_children(expr, [&](const Expr& child) { return expanded(child, domain); });
  }

  Expr expanded_where(const Expr& where, const IndexDomain& domain) {
    const IndexDomain yes = domain.where(where->args[0], true);
    if (yes.is_empty()) return expanded(where->args[2], domain);
    const IndexDomain no = domain.where(where->args[0], false);
    if (no.is_empty()) return expanded(where->args[1], domain);
    return with_args(where,
                     {expanded(where->args[0], domain), expanded(where->args[1], yes), expanded(where->args[2], no)});
  }

  Expr read_step(const Expr& access) {
    const auto found = unrolled_.find(access->tensor);
    if (found == unrolled_.end()) return access;
    std::vector<Affine> subscripts = access->subscripts;
    const std::int64_t step = subscripts[found->second].constant();
    subscripts.erase(subscripts.begin() + static_cast<std::ptrdiff_t>(found->second));
    return tensor_access(step_name(access->tensor, step), std::move(subscripts), access->args);
  }

  Expr expanded_sum(const Expr& sum, const IndexDomain& domain) {
    const OpenedReduce opened = open(sum);
    bool picks = false;
    visit(opened.body, [&](const Expr& e) {
      const auto found = e->kind == NodeKind::Access ? unrolled_.find(e->tensor) : unrolled_.end();
      picks |= found != unrolled_.end() && e->subscripts[found->second].mentions(opened.index);
    });
    if (!picks) {
      IndexDomain inside = domain;
      inside.add_range(opened.index, opened.range);
      return map_opened(sum, opened, [&](const Expr& child) { return expanded_over(child, inside); });
    }
    Expr total = constant(0);
    const Steps steps = *few_steps(sum->range);
    for (std::int64_t k = steps.first; k < steps.end; ++k) {
      const Expr term = expanded(substitute(opened.body, {{opened.index, Affine(k)}}), domain);
      total = k == steps.first ? term : total + term;
    }
    return total;
  }

  const Program& program_;
  const Unrolled& unrolled_;
  Program result_;
  std::map<std::pair<std::string, std::int64_t>, std::string> names_;
};

}  // namespace

Program unroll_scans(const Program& program) {
  Program result = program;
  for (std::uint32_t scan = 1; scan <= last_scan(program); ++scan) {
    const auto unrolled = follow(result, scan);
    if (unrolled && !unrolled->empty()) result = ScanUnroller(result, *unrolled).run();
  }
  return leave_scans(result);
}

}  // namespace moxie
