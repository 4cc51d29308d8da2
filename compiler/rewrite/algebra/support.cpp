#include "compiler/rewrite/algebra/support.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/placeholders.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Definitions that read definitions are followed so far.
constexpr int kMaxDepth = 4;
/// An expression that falls into more parts is taken to differ everywhere.
constexpr std::size_t kMostParts = 16;
/// Looks at expressions until a question is given up: branches of conditions that have something in common look at it
/// once for each of them.
constexpr int kMostLooks = 1000;
/// Constraints that are taken over from a definition.
constexpr std::size_t kMostTakenOver = 32;
/// Nodes of a definition that is looked into.
constexpr std::size_t kMostNodes = 200;

bool is_index_condition(const Expr& expr) { return is_call(expr, "where") && !depends_on_values(expr->args[0]); }

bool holds_index_condition(const Expr& expr) {
  bool found = false;
  std::size_t nodes = 0;
  visit(expr, [&](const Expr& e) {
    found |= is_index_condition(e);
    ++nodes;
  });
  return found && nodes <= kMostNodes;
}

/// All of left - right >= 0, < 0 and so on, that a comparison says when it holds or not.
std::vector<Affine> constraints_of(const Expr& comparison) {
  const auto left = affine_of(comparison->args[0]);
  const auto right = affine_of(comparison->args[1]);
  if (!left || !right) return {};
  const Affine above = *left - *right;
  const Affine below = *right - *left;
  const std::string_view name = comparison->function->name;
  if (name == "==" || name == "!=") return {above, below};
  if (name == "<" || name == ">=") return {above, below - Affine(1)};
  if (name == ">" || name == "<=") return {above - Affine(1), below};
  return {};
}

}  // namespace

bool Support::is_looked_into(const Definition& definition) {
  if (definition.scan || !is_stored_as_computed(definition.dtype)) return false;
  const auto [answer, is_new] = looked_into_.try_emplace(definition.name, false);
  if (is_new) answer->second = holds_index_condition(definition.body);
  return answer->second;
}

Expr Support::body_at(const Expr& access) {
  const Definition* definition = reads_by_value(access) ? nullptr : program_.find_definition(access->tensor);
  if (!definition || depth_ >= kMaxDepth || !is_looked_into(*definition)) return {};
  return substitute(definition->body, axes_by_subscripts(access));
}

const std::vector<Affine>& Support::constraints_of_definition(const Definition& definition) {
  const auto [known, is_new] = constraints_.try_emplace(definition.name);
  if (is_new && is_looked_into(definition)) {
    std::vector<Affine> found = constraints_in(definition.body);
    if (found.size() <= kMostTakenOver) known->second = std::move(found);
  }
  return known->second;
}

std::vector<Affine> Support::constraints_in(const Expr& expr) {
  std::vector<Affine> result;
  const auto add = [&](Affine affine) {
    if (std::ranges::find(result, affine) == result.end()) result.push_back(std::move(affine));
  };
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Call && e->function->result == ResultType::Truth && e->args.size() == 2)
      std::ranges::for_each(constraints_of(e), add);
    const Definition* definition =
        e->kind == NodeKind::Access && !reads_by_value(e) ? program_.find_definition(e->tensor) : nullptr;
    if (!definition) return;
    const auto at_element = [&](Symbol symbol) {
      return symbol.kind() == Symbol::Kind::Axis ? &e->subscripts[symbol.number()] : nullptr;
    };
    for (const Affine& constraint : constraints_of_definition(*definition)) add(constraint.substitute(at_element));
  });
  return result;
}

std::vector<IndexDomain> Support::outside(const Expr& expr, double value, const IndexDomain& domain) {
  looks_ = 0;
  Domains parts = of(expr, value, domain);
  return looks_ > kMostLooks ? Domains{domain} : parts;
}

std::vector<IndexDomain> Support::of(const Expr& expr, double value, const IndexDomain& domain) {
  if (++looks_ > kMostLooks) return {domain};
  switch (expr->kind) {
    case NodeKind::Constant:
      return expr->value == value ? Domains() : Domains{domain};
    case NodeKind::Call:
      return of_call(expr, value, domain);
    case NodeKind::Reduce:
      return of_reduction(expr, value, domain);
    case NodeKind::Access: {
      const Expr body = body_at(expr);
      if (!body) return {domain};
      ++depth_;
      Domains result = of(body, value, domain);
      --depth_;
      return result;
    }
    default:
      return {domain};
  }
}

std::vector<IndexDomain> Support::of_reduction(const Expr& expr, double value, const IndexDomain& domain) {
  if (extremum_of(expr->reduce) || neutral_value(expr->reduce) != value) return {domain};
  const OpenedReduce opened = open(expr);
  IndexDomain inside = domain;
  inside.add_range(opened.index, opened.range);
  return of(opened.body, value, inside);
}

std::vector<IndexDomain> Support::of_call(const Expr& expr, double value, const IndexDomain& domain) {
  if (is_call(expr, "where")) {
    if (depends_on_values(expr->args[0])) return of_some(expr, value, domain);
    Domains result;
    for (const bool truth : {true, false}) {
      const IndexDomain branch = domain.where(expr->args[0], truth);
      if (branch.is_empty()) continue;
      std::ranges::move(of(expr->args[truth ? 1 : 2], value, branch), std::back_inserter(result));
    }
    return result.size() > kMostParts ? Domains{domain} : result;
  }
  if (is_call(expr, "neg")) return of(expr->args[0], -value, domain);
  if (is_call(expr, "+") && value == 0) return of_some(expr, value, domain);
  if (laws_ == SupportLaws::Choices) return {domain};
  if (is_call(expr, "*") && value == 0)
    return of_every(expr, 0, domain, [&](const Expr& arg) { return are_others_finite(expr, arg); });
  if (is_call(expr, "+") && value == -kInfinity)
    return of_every(expr, value, domain, [&](const Expr& arg) { return are_others_finite(expr, arg); });
  if (is_call(expr, "pow") && value == 0) {
    const bool is_power = expr->args[1]->kind == NodeKind::Constant && expr->args[1]->value > 0;
    return is_power ? of(expr->args[0], 0, domain) : Domains{domain};
  }
  return expr->args.size() == 1 ? of_unary(expr, value, domain) : Domains{domain};
}

template <class Counts>
std::vector<IndexDomain> Support::of_every(const Expr& expr, double wanted, const IndexDomain& domain, Counts counts) {
  Domains parts = {domain};
  for (const Expr& arg : expr->args) {
    if (arg->kind == NodeKind::Constant || !counts(arg)) continue;
    Domains smaller;
    for (const IndexDomain& part : parts) std::ranges::move(of(arg, wanted, part), std::back_inserter(smaller));
    if (smaller.size() <= kMostParts) parts = std::move(smaller);
  }
  return parts;
}

/// Where one of the numbers may be another value: a sum of zeros is zero, and a choice among them.
std::vector<IndexDomain> Support::of_some(const Expr& expr, double value, const IndexDomain& domain) {
  Domains parts;
  for (const Expr& arg : expr->args) {
    if (arg->kind == NodeKind::Call && arg->function->result == ResultType::Truth) continue;
    std::ranges::move(of(arg, value, domain), std::back_inserter(parts));
    if (parts.size() > kMostParts) return {domain};
  }
  return parts;
}

/// exp of -inf is 0, sqrt of 0 is.
std::vector<IndexDomain> Support::of_unary(const Expr& expr, double value, const IndexDomain& domain) {
  Domains parts = {domain};
  for (const double argument : {0., -kInfinity}) {
    if (expr->function->reference(std::array{argument}) != value) continue;
    Domains smaller;
    for (const IndexDomain& part : parts)
      std::ranges::move(of(expr->args[0], argument, part), std::back_inserter(smaller));
    parts = std::move(smaller);
  }
  return parts;
}

bool Support::is_finite(const Expr& expr) { return program_.precision == Precision::Fast || finite_.holds(expr); }

bool Support::are_others_finite(const Expr& expr, const Expr& arg) {
  return std::ranges::all_of(expr->args, [&](const Expr& other) { return other == arg || is_finite(other); });
}

}  // namespace moxie
