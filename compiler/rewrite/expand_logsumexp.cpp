#include <array>
#include <limits>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "compiler/diff/open_definition.h"
#include "compiler/diff/prefix_recurrence.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/scans.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// Held within the finite numbers: so a body of -inf everywhere gives -inf, and one with inf anywhere inf, where the
/// difference to an infinite shift would be NaN.
Expr made_finite(const Expr& maximum, DType dtype) {
  const double largest = largest_number(dtype);
  return call("max", {call("min", {maximum, constant(largest)}), constant(-largest)});
}

bool is_log_sum_exp(const Expr& expr) {
  return expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::LogSumExp;
}

/// exp(element - shift), where the shift is finite; 0 of what a mask leaves out, so that the sum has that mask too.
Expr scaled(const Expr& element, const Expr& shift) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  if (is_call(element, "where") && element->args[2]->is_constant(kNothing))
    return call("where", {element->args[0], scaled(element->args[1], shift), constant(0)});
  return call("exp", {element - shift});
}

/// A log-sum-exp is shift + log(sum). Its body stands in `loops`.
struct Expanded {
  Expr shift, sum;
  std::vector<OpenedReduce> loops;
};

Expr total(const Expanded& shifted) { return shifted.shift + call("log", {shifted.sum}); }

/// Directly nested log-sum-exps take one maximum and one sum over all their indices.
Expanded expanded(const Expr& expr, const Scope& scope) {
  const auto expand_inner = [](const Expr& inner, const Scope& around) {
    return is_log_sum_exp(inner) ? std::optional(total(expanded(inner, around))) : std::nullopt;
  };
  std::vector<OpenedReduce> loops;
  Scope inside = scope;
  for (Expr body = expr; is_log_sum_exp(body); body = loops.back().body) {
    loops.push_back(open(body));
    inside = inside.with(loops.back().index, loops.back().range);
  }
  const auto over_all = [&](ReduceKind kind, Expr body) {
    for (const OpenedReduce& loop : loops | std::views::reverse) body = reduce(kind, loop.index, loop.range, body);
    return body;
  };
  const Expr body = rewrite_top_down(loops.back().body, inside, expand_inner);
  const Expr shift = made_finite(over_all(ReduceKind::Max, body), scope.dtype);
  return {shift, over_all(ReduceKind::Sum, scaled(body, shift)), loops};
}

/// Whether the body of the loops from the given one on is the element where their indices are open ones of the scope.
bool has_element(std::span<const OpenedReduce> loops, const Expr& body, const Expr& element, const Scope& scope) {
  if (loops.empty()) return body == element || (is_call(body, "where") && body->args[1] == element);
  return std::ranges::any_of(scope.open, [&](const auto& open) {
    const Replacement at_open = {{loops.front().index, Affine(open.first)}};
    return has_element(loops.subspan(1), substitute(body, at_open), element, scope);
  });
}

/// exp(element - log-sum-exp of the elements), a softmax, as exp(element - shift)/sum: so its exponentials are those
/// that were added up, and need not be computed again. The quotient of an element outside of the range, which may be
/// larger than the shift, overflows earlier by the factor of the sum.
std::optional<Expr> expanded_softmax(const Expr& expr, const Scope& scope) {
  if (!is_call(expr, "exp") || !is_call(expr->args[0], "+")) return std::nullopt;
  const std::vector<Expr>& terms = expr->args[0]->args;
  const auto is_total = [](const Expr& term) { return is_call(term, "neg") && is_log_sum_exp(term->args[0]); };
  const auto found = std::ranges::find_if(terms, is_total);
  if (found == terms.end()) return std::nullopt;
  std::vector<Expr> others(terms.begin(), found);
  others.insert(others.end(), found + 1, terms.end());
  const Expr element = others.size() == 1 ? others[0] : call("+", others);
  const Expanded shifted = expanded((*found)->args[0], scope);
  if (!has_element(shifted.loops, shifted.loops.back().body, element, scope)) return std::nullopt;
  return call("exp", {element - shifted.shift}) / shifted.sum;
}

/// A log-sum-exp over a prefix in linear work: the shift is a running maximum, and the sum a recurrence that is
/// rescaled when the maximum grows. No exponent is above 0.
class PrefixExpansion {
 public:
  explicit PrefixExpansion(const Program& program)
      : names_(lift_prefixes(program, kKinds, nullptr)), result_(names_), scan_(last_scan(names_)) {
    result_.definitions.clear();
  }

  Program run() {
    const std::vector<Definition> definitions = names_.definitions;
    for (const Definition& definition : definitions) {
      const bool is_one = definition.body->kind == NodeKind::Reduce && definition.body->reduce == kKinds[0];
      const auto recurrence = is_one ? prefix_recurrence(names_, definition) : std::nullopt;
      if (recurrence)
        expand(definition, *recurrence);
      else
        result_.definitions.push_back(definition);
    }
    return std::move(result_);
  }

 private:
  static constexpr std::array kKinds = {ReduceKind::LogSumExp};

  void expand(Definition definition, const PrefixRecurrence& recurrence) {
    const std::vector<Affine> own = own_axes(definition.axes.size());
    const std::string shift = unused_name(names_, definition.name + ".shift");
    const OpenedReduce opened = open(definition.body);
    const Expr maximum = reduce(ReduceKind::Max, opened.index, opened.range, opened.body);
    add(definition, shift, made_finite(maximum, computed_dtype(definition.dtype)), {});
    const std::string sum = unused_name(names_, definition.name + ".scaled");
    const Expr scale = call("exp", {tensor_access(shift, recurrence.previous) - tensor_access(shift, own)});
    const Expr before = call("where", {recurrence.is_first, 0, tensor_access(sum, recurrence.previous) * scale});
    const Expr newest = call("exp", {recurrence.element - tensor_access(shift, own)});
    add(definition, sum, before + newest, Scan{++scan_, recurrence.backwards});
    definition.body = tensor_access(shift, own) + call("log", {tensor_access(sum, own)});
    result_.definitions.push_back(std::move(definition));
  }

  void add(const Definition& user, const std::string& name, const Expr& body, const std::optional<Scan>& scan) {
    names_.definitions.push_back({name, user.dtype, user.axes, body, false, user.line, scan});
    result_.definitions.push_back(names_.definitions.back());
  }

  Program names_;  // for unused names
  Program result_;
  std::uint32_t scan_;
};

}  // namespace

Program expand_logsumexp(const Program& program) {
  Program result = PrefixExpansion(program).run();
  const auto expand = [](const Expr& expr, const Scope& scope) {
    return is_log_sum_exp(expr) ? std::optional(total(expanded(expr, scope))) : expanded_softmax(expr, scope);
  };
  for (Definition& definition : result.definitions)
    definition.body = rewrite_top_down(definition.body, Scope::of(definition), expand);
  return result;
}

}  // namespace moxie
