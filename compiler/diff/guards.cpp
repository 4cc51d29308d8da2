#include "compiler/diff/guards.h"

#include <algorithm>
#include <string_view>

#include "compiler/expression/functions.h"
#include "compiler/program/placeholders.h"

namespace moxie {
namespace {

/// Over integers a < b is b - a - 1 >= 0.
std::optional<IndexCondition> comparison(std::string_view name, const Affine& a, const Affine& b) {
  if (name == "<") return IndexCondition{{b - a - Affine(1)}, {}, {}};
  if (name == "<=") return IndexCondition{{b - a}, {}, {}};
  if (name == ">") return IndexCondition{{a - b - Affine(1)}, {}, {}};
  if (name == ">=") return IndexCondition{{a - b}, {}, {}};
  if (name == "==") return IndexCondition{{}, {a - b}, {}};
  return std::nullopt;
}

std::string_view negation(std::string_view name) {
  if (name == "<") return ">=";
  if (name == "<=") return ">";
  if (name == ">") return "<=";
  if (name == ">=") return "<";
  if (name == "==") return "!=";
  return "==";
}

void join(IndexCondition& into, IndexCondition part) {
  into.nonnegative.insert(into.nonnegative.end(), part.nonnegative.begin(), part.nonnegative.end());
  into.zero.insert(into.zero.end(), part.zero.begin(), part.zero.end());
  into.rest.insert(into.rest.end(), part.rest.begin(), part.rest.end());
}

/// `row` without its terms of the other sign: row >= 0 is written positive part >= negative part.
Expr part_of(const Affine& row, int sign) {
  Affine part;
  for (const auto& [symbol, coefficient] : row.terms()) {
    if (coefficient * sign > 0) part += Affine(symbol) * (coefficient * sign);
  }
  if (row.constant() * sign > 0) part += Affine(row.constant() * sign);
  if (part.is_constant()) return constant(static_cast<double>(part.constant()));
  return index_value(part);
}

bool is_number_or_dims(const Expr& side) {
  return std::ranges::all_of(side->free_symbols, [](Symbol symbol) { return symbol.is_dim(); });
}

/// With indices on the left side, as one would write it.
Expr compare(std::string_view name, std::string_view mirrored, const Affine& row) {
  const Expr left = part_of(row, 1);
  const Expr right = part_of(row, -1);
  if (is_number_or_dims(left) && !is_number_or_dims(right)) return call(mirrored, {right, left});
  return call(name, {left, right});
}

Expr is_zero(const Affine& row) {
  const bool flip = !row.terms().empty() && row.terms().front().second < 0;
  return compare("==", "==", flip ? -row : row);
}

/// a - b - 1 >= 0 is a > b.
Expr is_nonnegative(const Affine& row) {
  const auto has_sign = [&](int sign) {
    return std::ranges::any_of(row.terms(), [&](const Affine::Term& term) { return term.second * sign > 0; });
  };
  if (row.constant() < 0 && has_sign(1) && has_sign(-1)) return compare(">", "<", row + Affine(1));
  return compare(">=", "<=", row);
}

/// a - b of a != b.
std::optional<Affine> unequal_difference(const Expr& truth) {
  const bool is_negated = truth->kind == NodeKind::Call && truth->function->name == "not";
  const Expr& compared = is_negated ? truth->args[0] : truth;
  if (compared->kind != NodeKind::Call || compared->function->name != (is_negated ? "==" : "!=")) return std::nullopt;
  const auto a = affine_of(compared->args[0]);
  const auto b = affine_of(compared->args[1]);
  return a && b ? std::optional(*a - *b) : std::nullopt;
}

/// Whether `row` >= 0 because one of the rows is, which is at most as large.
bool follows(const Affine& row, const std::vector<Affine>& nonnegative) {
  return std::ranges::any_of(nonnegative, [&](const Affine& known) {
    const Affine slack = row - known;
    return slack.is_constant() && slack.constant() >= 0;
  });
}

}  // namespace

bool is_apart(const Expr& truth, const std::vector<Affine>& nonnegative) {
  const auto difference = unequal_difference(truth);
  if (!difference) return false;
  return follows(*difference - Affine(1), nonnegative) || follows(-*difference - Affine(1), nonnegative);
}

std::optional<Affine> one_sided(const Expr& truth, const std::vector<Affine>& nonnegative) {
  const auto difference = unequal_difference(truth);
  if (difference && follows(*difference, nonnegative)) return *difference - Affine(1);
  if (difference && follows(-*difference, nonnegative)) return -*difference - Affine(1);
  return std::nullopt;
}

IndexCondition conditions_of(const Expr& truth, bool holds) {
  IndexCondition result;
  const IndexCondition as_it_is{{}, {}, {holds ? truth : call("not", {truth})}};
  if (truth->kind != NodeKind::Call) return as_it_is;
  const std::string_view name = truth->function->name;
  if (name == "not") return conditions_of(truth->args[0], !holds);
  if (name == (holds ? "and" : "or")) {
    for (const Expr& arg : truth->args) join(result, conditions_of(arg, holds));
    return result;
  }
  if (name == "and" || name == "or" || truth->args.size() != 2) return as_it_is;
  const auto a = affine_of(truth->args[0]);
  const auto b = affine_of(truth->args[1]);
  if (a && b) {
    if (auto rows = comparison(holds ? name : negation(name), *a, *b)) return *rows;
  }
  return as_it_is;
}

Expr guarded(const std::vector<Affine>& zero, const std::vector<Affine>& nonnegative, const Expr& body) {
  std::vector<Expr> truths;
  for (const Affine& row : zero) truths.push_back(is_zero(row));
  for (const Affine& row : nonnegative) truths.push_back(is_nonnegative(row));
  return guarded(truths, body);
}

Expr guarded(const std::vector<Expr>& truths, const Expr& body) {
  if (truths.empty() || body->is_constant(0)) return body;
  return call("where", {truths.size() == 1 ? truths[0] : call("and", truths), body, 0});
}

}  // namespace moxie
