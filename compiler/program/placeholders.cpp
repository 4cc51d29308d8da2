#include "compiler/program/placeholders.h"

#include <algorithm>
#include <ranges>
#include <unordered_map>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/functions.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

bool is_where(const Expr& expr) { return expr->kind == NodeKind::Call && expr->function->name == "where"; }

bool is_quotient_sum(const Expr& expr) {
  return expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum && as_quotient(expr->range);
}

/// Sums over quotients around an IndexValue: a number such as i//2 or i%2.
bool is_quotient_number(const Expr& expr) {
  const Node* inner = expr.get();
  while (inner->kind == NodeKind::Reduce) {
    if (inner->reduce != ReduceKind::Sum || !as_quotient(inner->range)) return false;
    inner = inner->args[0].get();
  }
  return inner != expr.get() && inner->kind == NodeKind::IndexValue;
}

bool holds_quotient_number(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= is_quotient_number(e); });
  return found;
}

Expr number_of_element(const IntegerElement& integer) {
  const Symbol symbol = Symbol::fresh();
  return *substitute_element(index_value(symbol), symbol, integer);
}

IntegerElement opposite_of(const IntegerElement& integer) { return {-integer.affine, integer.values}; }

/// The integers that min, max, abs or where chooses among: affine in indices and elements of tensors, but for quotients
/// and choices.
std::optional<std::vector<IntegerElement>> integers_among(const Node& node, Placeholders& placeholders) {
  std::vector<IntegerElement> integers;
  for (std::size_t k = node.function->name == "where" ? 1 : 0; k < node.args.size(); ++k) {
    std::vector<Expr> values;
    const std::optional<Affine> integer = affine_of(node.args[k], &values, &placeholders);
    if (!integer) return std::nullopt;
    integers.push_back({*integer, std::move(values)});
  }
  return integers;
}

std::optional<Affine> chosen_integer(const Node& node, Placeholders& placeholders) {
  const std::string_view name = node.function->name;
  const auto integers = integers_among(node, placeholders);
  if (!integers) return std::nullopt;
  IntegerElement best = integers->front();
  if (name == "where") return placeholders.choice_of(node.args[0], best, integers->back());
  const auto compared = [](std::string_view comparison, const IntegerElement& a, const IntegerElement& b) {
    return call(comparison, {number_of_element(a), number_of_element(b)});
  };
  if (name == "abs") return placeholders.choice_of(compared(">=", best, {0}), best, opposite_of(best));
  for (const IntegerElement& integer : *integers | std::views::drop(1))
    best = {placeholders.choice_of(compared(name == "min" ? "<=" : ">=", best, integer), best, integer)};
  return best.affine;
}

std::optional<Affine> affine_call(const Node& node, std::vector<Expr>* values, Placeholders* placeholders) {
  if (placeholders && chooses_integers(*node.function)) return chosen_integer(node, *placeholders);
  if (!keeps_integers(*node.function)) return std::nullopt;
  std::optional<Affine> result;
  for (const Expr& arg : node.args) {
    const std::optional<Affine> operand = affine_of(arg, values, placeholders);
    if (!operand) return std::nullopt;
    if (node.function->name == "neg") return -*operand;
    if (!result)
      result = operand;
    else if (node.function->name == "+")
      *result += *operand;
    else if (node.function->name == "*" && result->is_constant())
      result = *operand * result->constant();
    else if (node.function->name == "*" && operand->is_constant())
      *result *= operand->constant();
    else
      return std::nullopt;
  }
  return result;
}

/// The condition with its quotients as affine expressions.
Expr with_affine_quotients(const Expr& expr, Placeholders& placeholders) {
  if (!holds_quotient_number(expr)) return expr;
  const bool is_number = expr->kind != NodeKind::Call || expr->function->result != ResultType::Truth;
  if (is_number) {
    Placeholders found = placeholders;
    const std::optional<Affine> affine = affine_of(expr, nullptr, &found);
    // An element stays where it is read: what is bound around all of the condition is not guarded by its parts.
    if (affine && !found.may_be_element(*affine)) {
      placeholders = std::move(found);
      return index_value(*affine);
    }
  }
  if (expr->kind != NodeKind::Call) return expr;
  std::vector<Expr> args;
  for (const Expr& arg : expr->args) args.push_back(with_affine_quotients(arg, placeholders));
  return with_args(expr, std::move(args));
}

/// Keeps the least and the greatest of those values that differ by a number.
std::vector<Affine> without_values_between(std::vector<Affine> values) {
  std::ranges::sort(values, {}, [](const Affine& value) { return std::pair(value.terms(), value.constant()); });
  std::vector<Affine> ends;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto is_like = [&](std::size_t other) { return values[other].terms() == values[i].terms(); };
    if (i == 0 || i + 1 == values.size() || !is_like(i - 1) || !is_like(i + 1)) ends.push_back(values[i]);
  }
  return ends;
}

/// What choices may be, without mentioning other choices: the ends of what may be more.
using ChoiceValues = std::vector<std::pair<Symbol, std::vector<Affine>>>;

std::vector<Affine> values_of(const Affine& affine, const ChoiceValues& known) {
  std::vector<Affine> values = {affine};
  for (const auto& [symbol, pieces] : std::views::reverse(known)) {
    if (!affine.mentions(symbol)) continue;
    std::vector<Affine> next;
    for (const Affine& value : values) {
      for (const Affine& piece : pieces)
        next.push_back(value.substitute([&](Symbol s) { return s == symbol ? &piece : nullptr; }));
    }
    values = std::move(next);
  }
  return values;
}

/// From the least of the values to the greatest, if the domain shows which these are.
std::optional<Range> range_around(const std::vector<Affine>& values, const IndexDomain& domain) {
  const auto least = [&](std::int64_t sign) {
    return std::ranges::find_if(values, [&](const Affine& value) {
      return std::ranges::all_of(values, [&](const Affine& other) {
        return domain.prove_nonnegative((other - value) * sign) == Proof::Holds;
      });
    });
  };
  const auto low = least(1), high = least(-1);
  if (low == values.end() || high == values.end()) return std::nullopt;
  return Range::half_open(*low, *high + Affine(1));
}

}  // namespace

Affine Placeholders::floor_of(const Affine& value, std::int64_t divisor) {
  if (const std::optional<Affine> exact = exact_quotient(value, divisor)) return *exact;
  return symbol_of(Quotient{value, divisor});
}

Affine Placeholders::remainder_of(const Affine& value, std::int64_t divisor) {
  return value - floor_of(value, divisor) * divisor;
}

Affine Placeholders::choice_of(const Expr& condition, const IntegerElement& a, const IntegerElement& b) {
  return a == b && a.values.empty() ? a.affine : symbol_of(Choice{condition, a, b});
}

bool Placeholders::may_be_element(const Affine& value) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) {
    const auto* choice = std::get_if<Choice>(&entry.second);
    if (!choice || !value.mentions(entry.first)) return false;
    const auto is_element = [&](const IntegerElement& e) { return !e.values.empty() || may_be_element(e.affine); };
    return is_element(choice->yes) || is_element(choice->no);
  });
}

Affine Placeholders::symbol_of(const Entry& entry) {
  const auto known = std::ranges::find(entries_, entry, &std::pair<Symbol, Entry>::second);
  return known != entries_.end() ? known->first : entries_.emplace_back(Symbol::fresh(), entry).first;
}

int Placeholders::quotients() const {
  return static_cast<int>(std::ranges::count_if(
      entries_, [](const auto& entry) { return std::holds_alternative<Quotient>(entry.second); }));
}

/// What does not mention the choice stays as it is: three pieces are three branches, not four. Choices by the same
/// condition, as two tables of the same index make them, are one.
Expr Placeholders::chosen(const Expr& expr, Symbol symbol, const Choice& choice) {
  if (!expr->depends_on(symbol)) return expr;
  const bool is_around = is_where(expr) && !expr->args[0]->depends_on(symbol);
  if (is_around && expr->args[0] != choice.condition)
    return call("where", {expr->args[0], chosen(expr->args[1], symbol, choice), chosen(expr->args[2], symbol, choice)});
  const auto piece = [&](const Expr& of, const IntegerElement& integer) {
    if (integer.values.empty()) return substitute(of, {{symbol, integer.affine}});
    const std::optional<Expr> result = substitute_element(of, symbol, integer);
    if (!result) throw TypeError("an element of a tensor cannot be divided in a subscript; name the quotient");
    return *result;
  };
  return call("where", {choice.condition, piece(is_around ? expr->args[1] : expr, choice.yes),
                        piece(is_around ? expr->args[2] : expr, choice.no)});
}

std::optional<Expr> Placeholders::bind(Expr expr, double most) const {
  for (const auto& [symbol, entry] : std::views::reverse(entries_)) {
    if (const auto* quotient = std::get_if<Quotient>(&entry)) {
      expr = reduce(ReduceKind::Sum, symbol, quotient->range(), expr);
    } else {
      expr = chosen(expr, symbol, std::get<Choice>(entry));
    }
    if (written_nodes(expr) > most) return std::nullopt;
  }
  return expr;
}

Expr Placeholders::lift(const Expr& expr) {
  if (!is_quotient_sum(expr)) return map_children(expr, [this](const Expr& child) { return lift(child); });
  const OpenedReduce opened = open(expr);
  const Quotient quotient = *as_quotient(opened.range);
  const Affine symbol = floor_of(quotient.value, quotient.divisor);
  return lift(substitute(opened.body, {{opened.index, symbol}}));
}

void Placeholders::add_to(IndexDomain& domain) const {
  ChoiceValues known;
  for (const auto& [symbol, entry] : entries_) {
    if (const auto* quotient = std::get_if<Quotient>(&entry)) {
      domain.add_range(symbol, quotient->range());
      continue;
    }
    const auto& choice = std::get<Choice>(entry);
    if (!choice.yes.values.empty() || !choice.no.values.empty()) continue;
    std::vector<Affine> values = values_of(choice.yes.affine, known);
    std::ranges::copy(values_of(choice.no.affine, known), std::back_inserter(values));
    values = without_values_between(std::move(values));
    if (const auto range = range_around(values, domain)) domain.add_range(symbol, *range);
    known.emplace_back(symbol, std::move(values));
  }
}

Expr Placeholders::share(const Expr& expr) const {
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (e->height == 0) return e;
    if (const auto it = done.find(e.get()); it != done.end()) return it->second.second;
    Expr result;
    const auto known = std::ranges::find_if(entries_, [&](const auto& entry) {
      const auto* quotient = std::get_if<Quotient>(&entry.second);
      return quotient && is_quotient_sum(e) && e->range == quotient->range();
    });
    if (known != entries_.end()) {
      const OpenedReduce opened = open(e);
      result = walk(substitute(opened.body, {{opened.index, known->first}}));
    } else {
      result = map_children(e, walk);
    }
    done.emplace(e.get(), std::pair(e, result));
    return result;
  };
  return walk(expr);
}

double written_nodes(const Expr& expr) {
  std::unordered_map<const Node*, double> nodes;
  visit(expr, [&nodes](const Expr& e) {
    double& own = nodes[e.get()] = 1;
    for (const Expr& arg : e->args) own += nodes.at(arg.get());
  });
  return nodes.at(expr.get());
}

Expr number_of(const Affine& value) {
  return value.is_constant() ? constant(static_cast<double>(value.constant())) : index_value(value);
}

Affine divided_by(std::string_view mark, const Affine& value, std::int64_t divisor, Placeholders& placeholders) {
  return mark == "%" ? placeholders.remainder_of(value, divisor) : placeholders.floor_of(value, divisor);
}

std::optional<Affine> wrapped_by(std::string_view mark, const Affine& value, const Affine& divisor,
                                 const IndexDomain& domain, Placeholders& placeholders) {
  constexpr std::int64_t kFarthest = 8;
  if (value.mentions_value()) return std::nullopt;
  const auto past = [&](std::int64_t quotient) { return value - divisor * quotient; };
  std::vector<std::int64_t> quotients;
  for (std::int64_t quotient = -kFarthest; quotient <= kFarthest; ++quotient) {
    IndexDomain here = domain;
    here.add_nonnegative(past(quotient));
    here.add_nonnegative(Affine(-1) - past(quotient + 1));
    if (!here.is_empty()) quotients.push_back(quotient);
  }
  const auto holds = [&](const Affine& affine) { return domain.prove_nonnegative(affine) == Proof::Holds; };
  if (quotients.empty() || !holds(past(quotients.front())) || !holds(Affine(-1) - past(quotients.back() + 1)))
    return std::nullopt;
  const auto piece = [&](std::int64_t quotient) { return mark == "%" ? past(quotient) : Affine(quotient); };
  Affine result = piece(quotients.back());
  for (std::size_t k = quotients.size() - 1; k-- > 0;) {
    const Expr is_before = call("<", {number_of(past(quotients[k + 1])), 0});
    result = placeholders.choice_of(is_before, {piece(quotients[k])}, {result});
  }
  return result;
}

Expr without_dead_branches(const Expr& expr, const IndexDomain& domain) {
  if (!is_where(expr)) return expr;
  const IndexDomain yes = domain.where(expr->args[0], true), no = domain.where(expr->args[0], false);
  if (yes.is_empty()) return without_dead_branches(expr->args[2], no);
  if (no.is_empty()) return without_dead_branches(expr->args[1], yes);
  return call("where",
              {expr->args[0], without_dead_branches(expr->args[1], yes), without_dead_branches(expr->args[2], no)});
}

std::optional<Affine> affine_of(const Expr& expr, std::vector<Expr>* values, Placeholders* placeholders) {
  if (expr->kind == NodeKind::IndexValue) return expr->affine;
  if (expr->kind == NodeKind::Call) return affine_call(*expr, values, placeholders);
  if (expr->kind == NodeKind::Access && values) {
    values->push_back(expr);
    return Affine(Symbol::value(static_cast<std::uint32_t>(values->size() - 1)));
  }
  if (placeholders && is_quotient_number(expr)) {
    const OpenedReduce opened = open(expr);
    const Quotient quotient = *as_quotient(opened.range);
    const Affine symbol = placeholders->floor_of(quotient.value, quotient.divisor);
    return affine_of(substitute(opened.body, {{opened.index, symbol}}), values, placeholders);
  }
  const auto integer = expr->kind == NodeKind::Constant ? exact_integer(expr->value) : std::nullopt;
  return integer ? std::optional(Affine(*integer)) : std::nullopt;
}

Expr choose_by(const Expr& condition, const Expr& a, const Expr& b) {
  Placeholders placeholders;
  const Expr affine = with_affine_quotients(condition, placeholders);
  return placeholders.bind(call("where", {affine, placeholders.share(a), placeholders.share(b)}));
}

}  // namespace moxie
