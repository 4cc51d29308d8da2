#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compiler/analysis/inside_proof.h"
#include "compiler/analysis/value_range.h"
#include "compiler/expression/functions.h"
#include "compiler/program/placeholders.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

/// Sums directly inside of each other, over what a condition selects: the sum over `indices` of `body` where all
/// `bounds` are at least zero, all `equations` zero, and all `conditions` true; or the negative of it.
struct ConditionalSum {
  std::vector<Symbol> indices;
  std::vector<Affine> bounds, equations;
  std::vector<Expr> conditions;
  Expr body;
  bool is_negative = false;
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

/// Whether it reads elements at indices alone, so that it can stand outside of conditions around it.
bool reads_by_indices(const Expr& condition) {
  bool result = true;
  visit(condition, [&](const Expr& e) { result &= !reads_by_value(e); });
  return result;
}

/// Sums inside of each other, or of the negative of each other: adds their indices and gives what they sum.
Expr opened_sums(Expr expr, ConditionalSum& sum) {
  while (is_sum(expr) || is_call(expr, "neg")) {
    if (is_call(expr, "neg")) {
      sum.is_negative = !sum.is_negative;
      expr = expr->args[0];
      continue;
    }
    const OpenedReduce opened = open(expr);
    sum.indices.push_back(opened.index);
    add_range(sum, opened.index, opened.range);
    expr = opened.body;
  }
  return expr;
}

/// Conditions inside of conditions, or of sums inside of these, select together what each selects.
std::optional<ConditionalSum> conditional_sum(const Expr& expr) {
  std::optional<ConditionalSum> result;
  ConditionalSum sum;
  Expr body = opened_sums(expr, sum);
  while (is_call(body, "where") && body->args[2]->is_constant(0) && (!result || reads_by_indices(body->args[0]))) {
    add_condition(sum, body->args[0]);
    sum.body = body->args[1];
    result = sum;
    body = opened_sums(sum.body, sum);
  }
  return result;
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
  Expr result = sum.is_negative ? -sum.body : sum.body;
  if (!conditions.empty()) {
    const Expr condition = conditions.size() == 1 ? conditions[0] : call("and", std::move(conditions));
    result = call("where", {condition, result, constant(0)});
  }
  for (std::size_t k = sum.indices.size(); k-- > 0;)
    result = reduce(ReduceKind::Sum, sum.indices[k], ranges[k], result);
  return result;
}

/// The sum without indices that equations between indices give; nothing where there are none.
std::optional<ConditionalSum> solved_by_indices(const ConditionalSum& given, const Scope& around) {
  std::optional<ConditionalSum> result;
  ConditionalSum sum = given;
  for (std::size_t k = 0; k < sum.equations.size();) {
    const Affine equation = sum.equations[k];
    const auto index = solved_index(sum, equation);
    if (!index) {
      ++k;
      continue;
    }
    ConditionalSum fewer = without(sum, *index, equation);
    fewer.equations.erase(fewer.equations.begin() + static_cast<std::ptrdiff_t>(k));
    if (!as_loops(fewer, around)) return result;
    result = sum = std::move(fewer);
  }
  return result;
}

/// Lanes that read by value load one element each, so that a sum over as many elements costs no more; unless they run
/// along the rows that are selected.
constexpr double kMaxComparedExtent = 16;

/// Equations between an index of a sum and an integer that elements of tensors give: row[z] == i.
class ElementEquations {
 public:
  ElementEquations(const Program& program, const Scope& around) : program_(program), around_(around) {}

  /// The sum without the indices that such equations give: it reads the elements that are selected, if there are any.
  std::optional<ConditionalSum> solve(const ConditionalSum& sum) const {
    if (compared_extent(sum) <= kMaxComparedExtent && !selects_rows(sum) && !is_over_pairs(sum)) return std::nullopt;
    auto result = solve_one(sum);
    while (auto fewer = result ? solve_one(*result) : std::nullopt) result = std::move(fewer);
    return result;
  }

 private:
  /// With how many elements all that the equations choose is compared.
  double compared_extent(const ConditionalSum& sum) const {
    double elements = 1;
    for (std::size_t at = 0; at < sum.indices.size(); ++at) {
      const auto chooses = [&](const Expr& condition) { return element_of(condition, sum.indices[at]).has_value(); };
      const auto extent = known_extent(range_of(sum, at));
      if (std::ranges::any_of(sum.conditions, chooses)) elements *= extent ? static_cast<double>(*extent) : HUGE_VAL;
    }
    return elements;
  }

  /// Whether data keep an index, or an element, in a range: of all pairs few are left, which are not in lanes.
  bool is_over_pairs(const ConditionalSum& sum) const {
    return std::ranges::any_of(sum.conditions,
                               [&](const Expr& condition) { return compares_with_values(program_, condition); });
  }

  /// Whether values alone give an index, which is none of columns where it is a subscript.
  bool selects_rows(const ConditionalSum& sum) const {
    return std::ranges::any_of(sum.indices, [&](Symbol index) {
      return is_of_rows(sum.body, index) && std::ranges::any_of(sum.conditions, [&](const Expr& condition) {
               const auto integer = element_of(condition, index);
               return integer && std::ranges::all_of(integer->affine.terms(), [](const Affine::Term& term) {
                        return term.first.kind() == Symbol::Kind::Value;
                      });
             });
    });
  }

  static bool is_of_rows(const Expr& body, Symbol index) {
    bool found = false, in_columns = false;
    visit(body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || !e->depends_on(index)) return;
      found = true;
      in_columns |= e->subscripts.back().mentions(index);
    });
    return found && !in_columns;
  }

  std::optional<ConditionalSum> solve_one(const ConditionalSum& sum) const {
    for (std::size_t k = 0; k < sum.conditions.size(); ++k) {
      for (const Symbol index : sum.indices) {
        const auto integer = element_of(sum.conditions[k], index);
        if (!integer) continue;
        ConditionalSum rest = sum;
        rest.conditions.erase(rest.conditions.begin() + static_cast<std::ptrdiff_t>(k));
        if (auto fewer = without(rest, index, *integer)) return fewer;
      }
    }
    return std::nullopt;
  }

  /// Counts are left to comparisons: fusion looks for the largest integer that ranks are compared with.
  bool is_count(const Expr& value) const {
    const Definition* definition = program_.find_definition(value->tensor);
    return definition && is_sum(definition->body);
  }

  /// What the condition gives the index, if it is such an equation.
  std::optional<IntegerElement> element_of(const Expr& equation, Symbol index) const {
    if (!is_call(equation, "==")) return std::nullopt;
    std::vector<Expr> values;
    const auto left = integer_of(program_, equation->args[0], values);
    const auto right = integer_of(program_, equation->args[1], values);
    if (!left || !right) return std::nullopt;
    const Affine difference = *left - *right;
    const std::int64_t coefficient = difference.coefficient(index);
    const auto is_fit = [&](const Expr& value) { return !value->depends_on(index) && !is_count(value); };
    if (std::abs(coefficient) != 1 || !difference.mentions_value() || !std::ranges::all_of(values, is_fit))
      return std::nullopt;
    return IntegerElement{(difference - Affine(index) * coefficient) * -coefficient, std::move(values)};
  }

  /// bound >= 0
  static Expr bound_on(Symbol index, const Affine& bound) {
    const std::int64_t coefficient = bound.coefficient(index);
    if (coefficient == 1) return call(">=", {index_value(index), number_of(Affine(index) - bound)});
    if (coefficient == -1) return call("<=", {index_value(index), number_of(bound + Affine(index))});
    return call(">=", {index_value(bound), constant(0)});
  }

  /// Nothing where the element cannot take the place of the index, or where what is read would be computed again for
  /// every element that selects it.
  std::optional<ConditionalSum> without(const ConditionalSum& sum, Symbol index, const IntegerElement& integer) const {
    ConditionalSum result = sum;
    std::erase(result.indices, index);
    result.bounds.clear(), result.equations.clear(), result.conditions.clear();
    bool fits = can_read(sum.body, index, integer);
    const auto require = [&](const Expr& condition) {
      const auto moved =
          can_read(condition, index, integer) ? substitute_element(condition, index, integer) : std::nullopt;
      if (moved) result.conditions.push_back(*moved);
      fits &= moved.has_value();
    };
    for (const Affine& bound : sum.bounds) {
      if (bound.mentions(index))
        require(bound_on(index, bound));
      else
        result.bounds.push_back(bound);
    }
    for (const Affine& equation : sum.equations) {
      if (equation.mentions(index))
        require(call("==", {index_value(equation), constant(0)}));
      else
        result.equations.push_back(equation);
    }
    for (const Expr& condition : sum.conditions) require(condition);
    const auto body = fits ? substitute_element(sum.body, index, integer) : std::nullopt;
    if (!body) return std::nullopt;
    result.body = *body;
    return as_loops(result, around_) ? std::optional(result) : std::nullopt;
  }

  /// Whether all that depends on the index is elements of axes that can be read by value, and little arithmetic: a
  /// reduction belongs to the element that selects it where it depends on that element's indices too.
  bool can_read(const Expr& expr, Symbol index, const IntegerElement& integer) const {
    const auto belongs_to_it = [&](const Expr& e) {
      return std::ranges::any_of(integer.values, [&](const Expr& value) { return shares_index(e, value); });
    };
    bool result = has_axes_by_value(program_, expr, index, around_.scan.has_value());
    visit(expr, [&](const Expr& e) {
      if (!e->depends_on(index)) return;
      result &= e->kind != NodeKind::LinearAlgebra && e->kind != NodeKind::Random;
      result &= e->kind != NodeKind::Reduce || belongs_to_it(e);
    });
    return result;
  }

  static bool shares_index(const Expr& a, const Expr& b) {
    return std::ranges::any_of(a->free_symbols, [&](Symbol s) { return !s.is_dim() && b->depends_on(s); });
  }

  const Program& program_;
  const Scope& around_;
};

std::optional<Expr> solved(const Program& program, const Expr& expr, const Scope& around) {
  if (!is_sum(expr)) return std::nullopt;
  const auto given = conditional_sum(expr);
  if (!given) return std::nullopt;
  auto result = solved_by_indices(*given, around);
  if (auto fewer = ElementEquations(program, around).solve(result ? *result : *given)) result = std::move(fewer);
  const auto loops = result ? as_loops(*result, around) : std::nullopt;
  if (!loops) return std::nullopt;
  const InsideProof proof(program, Inside::Element);
  const auto is_inside = [&](Expr e) {
    for (const Expr& condition : around.conditions) e = call("where", {condition, e, constant(0)});
    return proof.holds_within(e, domain_of(around));
  };
  // A condition that guarded the one inside it may stand beside it now.
  return is_inside(expr) && !is_inside(*loops) ? std::nullopt : loops;
}

}  // namespace

Program solve_conditions(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions)
    definition.body =
        rewrite_top_down(definition.body, Scope::of(definition),
                         [&](const Expr& expr, const Scope& around) { return solved(program, expr, around); });
  return result;
}

}  // namespace moxie
