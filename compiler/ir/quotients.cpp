#include "compiler/ir/quotients.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/exact_integer.h"
#include "compiler/ir/functions.h"

namespace moxie {
namespace {

/// The value without its remainder, divided, if the divisor divides every coefficient.
std::optional<Affine> divided_exactly(const Affine& value, std::int64_t divisor) {
  Affine result(floor_div(value.constant(), divisor));
  for (const auto& [symbol, coefficient] : value.terms()) {
    if (coefficient % divisor != 0) return std::nullopt;
    result += Affine(symbol) * (coefficient / divisor);
  }
  return result;
}

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

std::optional<Affine> affine_call(const Node& node, std::vector<Expr>* values, Quotients* quotients) {
  if (!keeps_integers(*node.function)) return std::nullopt;
  std::optional<Affine> result;
  for (const Expr& arg : node.args) {
    const std::optional<Affine> operand = affine_of(arg, values, quotients);
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
Expr with_affine_quotients(const Expr& expr, Quotients& quotients) {
  if (!holds_quotient_number(expr)) return expr;
  const bool is_number = expr->kind != NodeKind::Call || expr->function->result != ResultType::Truth;
  if (is_number) {
    Quotients found = quotients;
    if (const std::optional<Affine> affine = affine_of(expr, nullptr, &found)) {
      quotients = std::move(found);
      return index_value(*affine);
    }
  }
  if (expr->kind != NodeKind::Call) return expr;
  std::vector<Expr> args;
  for (const Expr& arg : expr->args) args.push_back(with_affine_quotients(arg, quotients));
  return with_args(expr, std::move(args));
}

}  // namespace

Range Quotient::range() const { return {{{divisor, value - Affine(divisor - 1)}}, {{divisor, value}}}; }

std::optional<Quotient> as_quotient(const Range& range) {
  if (range.highs.size() != 1) return std::nullopt;
  const Quotient quotient{range.highs[0].value, range.highs[0].divisor};
  return quotient.divisor > 1 && range == quotient.range() ? std::optional(quotient) : std::nullopt;
}

Affine Quotients::floor_of(const Affine& value, std::int64_t divisor) {
  if (const std::optional<Affine> exact = divided_exactly(value, divisor)) return *exact;
  const Quotient quotient{value, divisor};
  const auto known = std::ranges::find(entries_, quotient, &std::pair<Symbol, Quotient>::second);
  if (known != entries_.end()) return known->first;
  return entries_.emplace_back(Symbol::fresh(), quotient).first;
}

Affine Quotients::remainder_of(const Affine& value, std::int64_t divisor) {
  return value - floor_of(value, divisor) * divisor;
}

Expr Quotients::bind(Expr expr) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
    expr = reduce(ReduceKind::Sum, entry->first, entry->second.range(), expr);
  return expr;
}

Expr Quotients::share(const Expr& expr) const {
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (e->height == 0) return e;
    if (const auto it = done.find(e.get()); it != done.end()) return it->second.second;
    Expr result;
    const auto known = std::ranges::find_if(
        entries_, [&](const auto& entry) { return is_quotient_sum(e) && e->range == entry.second.range(); });
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

Expr divided(std::string_view mark, const Affine& value, std::int64_t divisor) {
  Quotients quotients;
  const Affine result = mark == "%" ? quotients.remainder_of(value, divisor) : quotients.floor_of(value, divisor);
  return result.is_constant() ? constant(static_cast<double>(result.constant())) : quotients.bind(index_value(result));
}

std::optional<Affine> affine_of(const Expr& expr, std::vector<Expr>* values, Quotients* quotients) {
  if (expr->kind == NodeKind::IndexValue) return expr->affine;
  if (expr->kind == NodeKind::Call) return affine_call(*expr, values, quotients);
  if (expr->kind == NodeKind::Access && values) {
    values->push_back(expr);
    return Affine(Symbol::value(static_cast<std::uint32_t>(values->size() - 1)));
  }
  if (quotients && is_quotient_number(expr)) {
    const OpenedReduce opened = open(expr);
    const Quotient quotient = *as_quotient(opened.range);
    const Affine symbol = quotients->floor_of(quotient.value, quotient.divisor);
    return affine_of(substitute(opened.body, {{opened.index, symbol}}), values, quotients);
  }
  const auto integer = expr->kind == NodeKind::Constant ? exact_integer(expr->value) : std::nullopt;
  return integer ? std::optional(Affine(*integer)) : std::nullopt;
}

Expr choose_by(const Expr& condition, const Expr& a, const Expr& b) {
  Quotients quotients;
  const Expr affine = with_affine_quotients(condition, quotients);
  return quotients.bind(call("where", {affine, quotients.share(a), quotients.share(b)}));
}

}  // namespace moxie
