#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <algorithm>
#include "compiler/diff/open_definition.h"
#include "compiler/diff/prefix_recurrence.h"
#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

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

/// A log-sum-exp is shift + log(sum of scaled(body, shift)). The loops have the body as it was written.
struct Expanded {
  Expr shift, body;
  std::vector<OpenedReduce> loops;
};

Expr over_all(ReduceKind kind, std::span<const OpenedReduce> loops, Expr body) {
  for (const OpenedReduce& loop : loops | std::views::reverse) body = reduce(kind, loop.index, loop.range, body);
  return body;
}

Expr sum_of(const Expanded& parts, const Expr& shift) {
  return over_all(ReduceKind::Sum, parts.loops, scaled(parts.body, shift));
}

Expr with_expanded(const Expr& expr, const Scope& scope);

/// Directly nested log-sum-exps take one maximum and one sum over all their indices.
Expanded expanded(const Expr& expr, const Scope& scope) {
  std::vector<OpenedReduce> loops;
  Scope inside = scope;
  for (Expr body = expr; is_log_sum_exp(body); body = loops.back().body) {
    loops.push_back(open(body));
    inside = inside.with(loops.back().index, loops.back().range);
  }
  const Expr body = with_expanded(loops.back().body, inside);
  return {made_finite(over_all(ReduceKind::Max, loops, body), scope.dtype), body, std::move(loops)};
}

/// The expression with every log-sum-exp in it expanded.
Expr with_expanded(const Expr& expr, const Scope& scope) {
  return rewrite_top_down(expr, scope, [](const Expr& inner, const Scope& around) -> std::optional<Expr> {
    if (!is_log_sum_exp(inner)) return std::nullopt;
    const Expanded parts = expanded(inner, around);
    return parts.shift + call("log", {sum_of(parts, parts.shift)});
  });
}

/// Whether the body of the loops from the given one on is the element where their indices are open ones of the scope.
bool has_element(std::span<const OpenedReduce> loops, const Expr& body, const Expr& element, const Scope& scope) {
  if (loops.empty()) return body == element || (is_call(body, "where") && body->args[1] == element);
  return std::ranges::any_of(scope.open, [&](const auto& open) {
    const Replacement at_open = {{loops.front().index, Affine(open.first)}};
    return has_element(loops.subspan(1), substitute(body, at_open), element, scope);
  });
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

/// Expands log-sum-exps where they stand. A softmax, exp(element - log-sum-exp of the elements), becomes
/// exp(element - shift)/sum: so its exponentials are those that were added up, and need not be computed again. Where it
/// reads a definition that is the log-sum-exp, shift and sum become definitions, too.
class LogSumExps {
 public:
  explicit LogSumExps(const Program& program) : program_(program) {
    for (const Definition& definition : program.definitions) {
      if (!definition.scan && is_log_sum_exp(definition.body))
        parts_[definition.name] = {unused_name(program, definition.name + ".shift"),
                                   unused_name(program, definition.name + ".scaled")};
    }
  }

  Program run() {
    std::vector<Definition> definitions = program_.definitions;
    for (Definition& definition : definitions) {
      if (!parts_.contains(definition.name)) definition.body = in_body(definition);
    }
    Program result = program_;
    result.definitions.clear();
    for (Definition& definition : definitions) {
      if (parts_.contains(definition.name) && !divided_.contains(definition.name))
        definition.body = in_body(definition);
      else if (parts_.contains(definition.name))
        add_parts(definition, result);
      result.definitions.push_back(std::move(definition));
    }
    return result;
  }

 private:
  struct Parts {
    std::string shift, sum;
  };
  /// What an exponent takes away: a log-sum-exp, and its parts.
  struct Normaliser {
    Expr shift, sum, element;  // any element: see has_element()
    std::vector<OpenedReduce> loops;
    std::string definition;  // that is read, if one is
  };

  Expr in_body(const Definition& definition) {
    return rewrite_top_down(definition.body, Scope::of(definition), [&](const Expr& expr, const Scope& scope) {
      return is_log_sum_exp(expr) ? std::optional(with_expanded(expr, scope)) : softmax(expr, scope);
    });
  }

  /// The quotient of an element outside of the range, which may be larger than the shift, overflows earlier by the
  /// factor of the sum.
  std::optional<Expr> softmax(const Expr& expr, const Scope& scope) {
    if (!is_call(expr, "exp") || !is_call(expr->args[0], "+")) return std::nullopt;
    const std::vector<Expr>& terms = expr->args[0]->args;
    for (std::size_t k = 0; k < terms.size(); ++k) {
      const auto normaliser = is_call(terms[k], "neg") ? normaliser_of(terms[k]->args[0], scope) : std::nullopt;
      if (!normaliser) continue;
      std::vector<Expr> others = terms;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      const Expr element = others.size() == 1 ? others[0] : call("+", others);
      if (!has_element(normaliser->loops, normaliser->element, element, scope)) continue;
      if (!normaliser->definition.empty()) divided_.insert(normaliser->definition);
      return scaled(with_expanded(element, scope), normaliser->shift) / normaliser->sum;
    }
    return std::nullopt;
  }

  /// Derivatives take away no less than the lowest number, and so are zero where all elements are -inf. The sum is 0
  /// there, and else at least 1.
  std::optional<Normaliser> normaliser_of(const Expr& taken_away, const Scope& scope) const {
    const bool is_bounded = is_call(taken_away, "max") && taken_away->args.size() == 2 &&
                            taken_away->args[1]->is_constant(-largest_number(scope.dtype));
    const Expr& value = is_bounded ? taken_away->args[0] : taken_away;
    const bool reads = value->kind == NodeKind::Access && !reads_by_value(value) && parts_.contains(value->tensor);
    if (!reads && !is_log_sum_exp(value)) return std::nullopt;
    const Expr whole =
        reads ? substitute(program_.find_definition(value->tensor)->body, axes_by_subscripts(value)) : value;
    Normaliser result;
    const Expanded parts = expanded(whole, scope);
    result.element = parts.loops.back().body;
    result.loops = parts.loops;
    result.shift = reads ? tensor_access(parts_.at(value->tensor).shift, value->subscripts) : parts.shift;
    result.sum = reads ? tensor_access(parts_.at(value->tensor).sum, value->subscripts) : sum_of(parts, parts.shift);
    if (is_bounded) result.sum = call("max", {result.sum, constant(1)});
    if (reads) result.definition = value->tensor;
    return result;
  }

  /// The shift and the sum of a definition that is a log-sum-exp, which reads them now.
  void add_parts(Definition& definition, Program& result) const {
    const auto& [shift, sum] = parts_.at(definition.name);
    std::vector<Affine> own;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) own.emplace_back(Symbol::axis(k));
    const DType dtype = computed_dtype(definition.dtype);
    const Expanded parts = expanded(definition.body, Scope::of(definition));
    const Expr of_shift = tensor_access(shift, own);
    const Expr body = sum_of(parts, of_shift);
    result.definitions.push_back({shift, dtype, definition.axes, parts.shift, false, definition.line, {}});
    result.definitions.push_back({sum, dtype, definition.axes, body, false, definition.line, {}});
    definition.body = of_shift + call("log", {tensor_access(sum, own)});
  }

  const Program& program_;
  std::map<std::string, Parts> parts_;  // names of the shift and the sum of each definition that is a log-sum-exp
  std::set<std::string> divided_;       // those of them that some softmax reads
};

}  // namespace

Program expand_logsumexp(const Program& program) {
  const Program without_prefixes = PrefixExpansion(program).run();
  return LogSumExps(without_prefixes).run();
}

}  // namespace moxie
