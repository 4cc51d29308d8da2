#include "compiler/diff/operand_guards.h"

#include <algorithm>
#include <iterator>

#include "compiler/analysis/inside_proof.h"
#include "compiler/diff/open_definition.h"
#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

/// a and b: a, b.
void add_conjuncts(const Expr& condition, bool truth, std::vector<Expr>& conjuncts) {
  const std::string_view name = condition->function->name;
  if (name == "not") return add_conjuncts(condition->args[0], !truth, conjuncts);
  if (name == (truth ? "and" : "or")) {
    for (const Expr& arg : condition->args) add_conjuncts(arg, truth, conjuncts);
    return;
  }
  conjuncts.push_back(truth ? condition : call("not", {condition}));
}

/// What every index is between, whatever the others are.
IndexDomain box_domain(const IterationDomain& domain) {
  IndexDomain result({});
  for (const Symbol variable : domain.variables) {
    const auto box = box_of(domain, variable);
    if (!box) continue;
    result.add_nonnegative(Affine(variable) - box->low);
    result.add_nonnegative(box->high - Affine(variable));
  }
  return result;
}

/// Which values two indices have together, as between the ends of a loop that another index moves.
std::vector<Expr> range_conditions(const IterationDomain& domain) {
  std::vector<Expr> result;
  for (const Affine& row : domain.nonnegative) {
    const auto count =
        std::ranges::count_if(row.terms(), [](const Affine::Term& term) { return !term.first.is_dim(); });
    if (count > 1) result.push_back(call(">=", {index_value(row), index_value(Affine(0))}));
  }
  return result;
}

bool mentions_only(const Expr& condition, const std::vector<Symbol>& variables) {
  return std::ranges::all_of(condition->free_symbols, [&](Symbol symbol) {
    return symbol.is_dim() || std::ranges::find(variables, symbol) != variables.end();
  });
}

/// A reduction is too much to compute for every element of a matrix.
bool is_cheap(const Expr& condition) {
  bool result = true;
  visit(condition, [&](const Expr& e) { result &= e->kind != NodeKind::Reduce; });
  return result;
}

class OperandProof {
 public:
  OperandProof(const OperandReader& reader, const Expr& operand, const IterationDomain& domain)
      : operand_(operand),
        domain_(box_domain(domain)),
        proof_(reader.known, Inside::Element, at_step(reader, domain)) {}

  bool holds_under(const std::vector<Expr>& conditions) const {
    return proof_.holds_within(guarded_operand(conditions, operand_, constant(0)), domain_);
  }

 private:
  static std::optional<AtStep> at_step(const OperandReader& reader, const IterationDomain& domain) {
    return reader.scan ? std::optional(AtStep{*reader.scan, Affine(domain.variables[0])}) : std::nullopt;
  }

  const Expr& operand_;
  IndexDomain domain_;
  InsideProof proof_;
};

}  // namespace

GuardedPlace GuardedPlace::in_loop(Symbol index, const Range& range) const {
  return {extended(domain, index, range), conditions};
}

GuardedPlace GuardedPlace::where(const Expr& condition, bool truth) const {
  GuardedPlace result = *this;
  add_conjuncts(condition, truth, result.conditions);
  return result;
}

std::vector<Symbol> variables_of(const OperandReader& reader, const Expr& operand, const IterationDomain& domain) {
  const bool steps = reader.scan && reads_scan(reader.known, operand, *reader.scan);
  std::vector<Symbol> result;
  std::ranges::copy_if(domain.variables, std::back_inserter(result), [&](Symbol variable) {
    return operand->depends_on(variable) || (steps && variable == domain.variables[0]);
  });
  return result;
}

std::vector<Expr> conditions_of_operand(const OperandReader& reader, const Expr& operand, const GuardedPlace& place) {
  const std::vector<Symbol> variables = variables_of(reader, operand, place.domain);
  std::vector<Expr> chosen, others;
  for (const Expr& condition : place.conditions) {
    if (mentions_only(condition, variables) && is_cheap(condition))
      chosen.push_back(condition);
    else if (!depends_on_values(condition))
      others.push_back(condition);
  }
  const auto add_ranges = [&](bool own, std::vector<Expr>& conditions) {
    for (const Expr& range : range_conditions(place.domain))
      if (mentions_only(range, variables) == own) conditions.push_back(range);
  };
  add_ranges(false, others);
  std::vector<Expr> enough = chosen;
  add_ranges(true, enough);
  if (others.empty() && enough.size() == chosen.size()) return chosen;
  const OperandProof proof(reader, operand, place.domain);
  if (proof.holds_under(chosen)) return chosen;
  if (proof.holds_under(enough)) return enough;
  std::ranges::copy(others, std::back_inserter(enough));
  return proof.holds_under(enough) ? enough : chosen;
}

Expr guarded_operand(const std::vector<Expr>& conditions, const Expr& operand, const Expr& otherwise) {
  if (conditions.empty()) return operand;
  return call("where", {conditions.size() == 1 ? conditions[0] : call("and", conditions), operand, otherwise});
}

}  // namespace moxie
