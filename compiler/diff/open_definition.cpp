#include "compiler/diff/open_definition.h"

#include <algorithm>

#include "compiler/diff/fourier_motzkin.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

const Affine* find_replacement(const Replacement& replacement, Symbol symbol) {
  const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
  return it == replacement.end() ? nullptr : &it->second;
}

/// The bound on `variable` that `row` gives, with all earlier variables at the ends of their boxes; `row` bounds it
/// from below for a positive coefficient. Empty if later variables take part or a variable has no box.
std::optional<Affine> bound_from(const IterationDomain& domain, const Affine& row, std::size_t position) {
  const std::int64_t coefficient = row.coefficient(domain.variables[position]);
  Affine rest = row - Affine(domain.variables[position]) * coefficient;  // coefficient * variable >= -rest
  for (std::size_t k = 0; k < domain.variables.size(); ++k) {
    const std::int64_t c = rest.coefficient(domain.variables[k]);
    if (c == 0) continue;
    const auto box = k < position ? box_of(domain, domain.variables[k]) : std::nullopt;
    if (!box) return std::nullopt;
    rest += ((c > 0 ? box->high : box->low) - Affine(domain.variables[k])) * c;
  }
  const std::int64_t divisor = coefficient > 0 ? coefficient : -coefficient;
  if (divisor == 1) return coefficient > 0 ? -rest : rest;
  if (!rest.is_constant()) return std::nullopt;
  return coefficient > 0 ? ceil_div(-rest.constant(), divisor) : floor_div(rest.constant(), divisor);
}

/// Whether the bound, an affine number in dims, is the tighter one whatever these are.
bool is_tighter(const Affine& bound, const Affine& other, bool is_low) {
  const Affine more = is_low ? bound - other : other - bound;
  return more != Affine(0) && more.constant() >= 0 &&
         std::ranges::all_of(more.terms(), [](const Affine::Term& term) { return term.second > 0; });
}

bool contains(const Expr& expr, const Expr& part) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e == part; });
  return found;
}

}  // namespace

bool is_whole_value(const Expr& body, const Expr& part) {
  if (body == part) return true;
  if (!is_call(body, "where")) return false;
  const Expr& yes = body->args[1];
  const Expr& no = body->args[2];
  return (is_whole_value(yes, part) && !contains(no, part)) || (is_whole_value(no, part) && !contains(yes, part));
}

OpenDefinition open_definition(const Definition& definition) {
  OpenDefinition open;
  for (std::size_t k = 0; k < definition.axes.size(); ++k) {
    const Symbol index = Symbol::fresh();
    const Range range =
        definition.axes[k].range.substitute([&](Symbol symbol) { return find_replacement(open.opening, symbol); });
    open.opening.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)), Affine(index));
    open.domain = extended(open.domain, index, range);
  }
  open.body = substitute(definition.body, open.opening);
  return open;
}

Replacement closing_of(const OpenDefinition& open) {
  Replacement closing;
  for (std::size_t k = 0; k < open.domain.variables.size(); ++k)
    closing.emplace_back(open.domain.variables[k], Symbol::axis(static_cast<std::uint32_t>(k)));
  return closing;
}

std::vector<std::pair<Symbol, std::string>> names_of(const Definition& definition, const OpenDefinition& open) {
  std::vector<std::pair<Symbol, std::string>> names;
  for (std::size_t k = 0; k < definition.axes.size(); ++k)
    names.emplace_back(open.domain.variables[k], definition.axes[k].name);
  return names;
}

std::vector<Affine> own_axes(std::size_t rank) {
  std::vector<Affine> axes;
  for (std::size_t k = 0; k < rank; ++k) axes.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
  return axes;
}

IterationDomain extended(const IterationDomain& domain, Symbol index, const Range& range) {
  IterationDomain result = domain;
  result.variables.push_back(index);
  for (Affine& row : rows_of(index, range)) result.nonnegative.push_back(std::move(row));
  return result;
}

std::optional<IndexBox> box_of(const IterationDomain& domain, Symbol variable) {
  const auto position =
      static_cast<std::size_t>(std::ranges::find(domain.variables, variable) - domain.variables.begin());
  std::optional<Affine> low, high;
  for (const Affine& row : domain.nonnegative) {
    const std::int64_t coefficient = row.coefficient(variable);
    if (coefficient == 0) continue;
    auto& bound = coefficient > 0 ? low : high;
    const auto other = bound_from(domain, row, position);
    if (!bound || (other && is_tighter(*other, *bound, coefficient > 0))) bound = other;
  }
  if (!low || !high) return std::nullopt;
  return IndexBox{*low, *high};
}

std::optional<std::vector<IndexBox>> boxes_of(const IterationDomain& domain, const std::vector<Symbol>& variables) {
  std::vector<IndexBox> boxes;
  for (const Symbol variable : variables) {
    const auto box = box_of(domain, variable);
    if (!box) return std::nullopt;
    boxes.push_back(*box);
  }
  return boxes;
}

std::vector<Symbol> variables_of(const Expr& expr, const IterationDomain& domain) {
  std::vector<Symbol> found;
  std::ranges::copy_if(domain.variables, std::back_inserter(found), [&](Symbol v) { return expr->depends_on(v); });
  return found;
}

bool has_own_range(Symbol variable, const IterationDomain& domain) {
  return std::ranges::none_of(domain.nonnegative, [&](const Affine& row) {
    return row.mentions(variable) && std::ranges::any_of(domain.variables, [&](Symbol other) {
             return other != variable && row.mentions(other);
           });
  });
}

std::vector<OpenAxis> as_axes(const ProgramBuilder& builder, const std::vector<Symbol>& variables,
                              const std::vector<IndexBox>& boxes,
                              const std::vector<std::pair<Symbol, std::string>>& names) {
  std::vector<Affine> extents;
  std::vector<std::string> preferred;
  for (std::size_t k = 0; k < variables.size(); ++k) {
    const auto named = std::ranges::find(names, variables[k], &std::pair<Symbol, std::string>::first);
    extents.push_back(clamped_extent(boxes[k].high - boxes[k].low + Affine(1)));
    preferred.push_back(named == names.end() ? "" : named->second);
  }
  const std::vector<AxisDecl> axes = builder.axes_for(extents, preferred);
  std::vector<OpenAxis> result;
  for (std::size_t k = 0; k < variables.size(); ++k) result.push_back({variables[k], boxes[k].low, axes[k]});
  return result;
}

}  // namespace moxie
