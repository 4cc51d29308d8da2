#include <algorithm>
#include <cstdlib>

#include "compiler/ir/functions.h"
#include "compiler/ir/placeholders.h"
#include "compiler/rewrite/flat_sum.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/range_bounds.h"

namespace moxie {
namespace {

/// Sums directly inside of each other, over what a condition selects: the sum over `indices` of `body` where all
/// `bounds` are at least zero, all `equations` zero, and all `conditions` true.
struct ConditionalSum {
  std::vector<Symbol> indices;
  std::vector<Affine> bounds, equations;
  std::vector<Expr> conditions;
  Expr body;
};

void add_range(ConditionalSum& sum, Symbol index, const Range& range) {
  for (const Bound& low : range.lows) sum.bounds.push_back(Affine(index) * low.divisor - low.value);
  for (const Bound& high : range.highs) sum.bounds.push_back(high.value - Affine(index) * high.divisor);
}

/// A comparison of indices as what it says of their difference; others as they are.
void add_condition(ConditionalSum& sum, const Expr& condition) {
  if (is_call(condition, "and")) {
    for (const Expr& arg : condition->args) add_condition(sum, arg);
    return;
  }
  const bool compares = condition->kind == NodeKind::Call && condition->args.size() == 2;
  const auto left = compares ? affine_of(condition->args[0]) : std::nullopt;
  const auto right = compares ? affine_of(condition->args[1]) : std::nullopt;
  if (left && right && is_call(condition, "=="))
    sum.equations.push_back(*left - *right);
  else if (left && right && is_call(condition, "<="))
    sum.bounds.push_back(*right - *left);
  else if (left && right && is_call(condition, "<"))
    sum.bounds.push_back(*right - *left - Affine(1));
  else if (left && right && is_call(condition, ">="))
    sum.bounds.push_back(*left - *right);
  else if (left && right && is_call(condition, ">"))
    sum.bounds.push_back(*left - *right - Affine(1));
  else
    sum.conditions.push_back(condition);
}

std::optional<ConditionalSum> conditional_sum(const Expr& expr) {
  ConditionalSum sum;
  sum.body = expr;
  while (is_sum(sum.body)) {
    const OpenedReduce opened = open(sum.body);
    sum.indices.push_back(opened.index);
    add_range(sum, opened.index, opened.range);
    sum.body = opened.body;
  }
  if (!is_call(sum.body, "where") || !sum.body->args[2]->is_constant(0)) return std::nullopt;
  add_condition(sum, sum.body->args[0]);
  sum.body = sum.body->args[1];
  return sum;
}

/// The outermost index of the sum that the equation gives as an integer, whatever the others are.
std::optional<Symbol> solved_index(const ConditionalSum& sum, const Affine& equation) {
  const auto is_solved = [&](Symbol index) { return std::abs(equation.coefficient(index)) == 1; };
  const auto found = std::ranges::find_if(sum.indices, is_solved);
  return found == sum.indices.end() ? std::nullopt : std::optional(*found);
}

/// The sum without the index, which the equation gives.
ConditionalSum without(const ConditionalSum& sum, Symbol index, const Affine& equation) {
  const std::int64_t coefficient = equation.coefficient(index);
  const Affine value = (equation - Affine(index) * coefficient) * -coefficient;  // the coefficient is 1 or -1
  const auto solve = [&](const Affine& affine) {
    return affine.substitute([&](Symbol symbol) { return symbol == index ? &value : nullptr; });
  };
  ConditionalSum result = sum;
  std::erase(result.indices, index);
  std::ranges::transform(sum.bounds, result.bounds.begin(), solve);
  std::ranges::transform(sum.equations, result.equations.begin(), solve);
  for (Expr& condition : result.conditions) condition = substitute(condition, {{index, value}});
  result.body = substitute(result.body, {{index, value}});
  return result;
}

/// What is known of an index from bounds on it and on indices further out.
Range range_of(const ConditionalSum& sum, std::size_t index) {
  const auto is_further_in = [&](Symbol symbol) {
    return std::find(sum.indices.begin() + static_cast<std::ptrdiff_t>(index) + 1, sum.indices.end(), symbol) !=
           sum.indices.end();
  };
  Range range;
  for (const Affine& bound : sum.bounds) {
    const auto mentions_further_in =
        std::ranges::any_of(bound.terms(), [&](const Affine::Term& term) { return is_further_in(term.first); });
    if (bound.mentions(sum.indices[index]) && !mentions_further_in)
      range = with_bound(std::move(range), sum.indices[index], bound);
  }
  return range;
}

/// The sum as loops whose ranges say what the bounds do; nothing where a loop would not end.
std::optional<Expr> as_loops(const ConditionalSum& sum, const Scope& around) {
  IndexDomain domain = domain_of(around);
  std::vector<Range> ranges;
  for (std::size_t k = 0; k < sum.indices.size(); ++k) {
    Range range = range_of(sum, k);
    if (range.lows.empty() || range.highs.empty()) return std::nullopt;
    ranges.push_back(without_idle_bounds(std::move(range), sum.indices[k], domain));
    domain.add_range(sum.indices[k], ranges.back());
  }
  std::vector<Expr> conditions;
  const auto require = [&](const char* relation, const Affine& affine) {
    conditions.push_back(call(relation, {number_of(affine), constant(0)}));
  };
  for (const Affine& bound : sum.bounds) {
    if (domain.prove_nonnegative(bound) != Proof::Holds) require(">=", bound);
  }
  for (const Affine& equation : sum.equations) require("==", equation);
  std::ranges::copy(sum.conditions, std::back_inserter(conditions));
  Expr result = sum.body;
  if (!conditions.empty()) {
    const Expr condition = conditions.size() == 1 ? conditions[0] : call("and", std::move(conditions));
    result = call("where", {condition, result, constant(0)});
  }
  for (std::size_t k = sum.indices.size(); k-- > 0;)
    result = reduce(ReduceKind::Sum, sum.indices[k], ranges[k], result);
  return result;
}

std::optional<Expr> solved(const Expr& expr, const Scope& around) {
  if (!is_sum(expr)) return std::nullopt;
  auto sum = conditional_sum(expr);
  if (!sum) return std::nullopt;
  std::optional<Expr> result;
  for (std::size_t k = 0; k < sum->equations.size();) {
    const Affine equation = sum->equations[k];
    const auto index = solved_index(*sum, equation);
    if (!index) {
      ++k;
      continue;
    }
    ConditionalSum fewer = without(*sum, *index, equation);
    fewer.equations.erase(fewer.equations.begin() + static_cast<std::ptrdiff_t>(k));
    const auto loops = as_loops(fewer, around);
    if (!loops) return result;
    result = loops;
    sum = std::move(fewer);
  }
  return result;
}

}  // namespace

Program solve_conditions(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions)
    definition.body = rewrite_top_down(definition.body, Scope::of(definition), solved);
  return result;
}

}  // namespace moxie
