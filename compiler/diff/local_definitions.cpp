#include "compiler/diff/local_definitions.h"

#include <algorithm>
#include <iterator>

namespace moxie {

LocalDefinitions::LocalDefinitions(ProgramBuilder& builder, const Definition& definition, const OpenDefinition& open,
                                   std::string prefix, Gates& gates)
    : builder_(builder),
      definition_(definition),
      prefix_(std::move(prefix)),
      gates_(gates),
      names_(names_of(definition, open)) {
  if (definition.scan) step_ = open.domain.variables.at(0);
}

Expr LocalDefinitions::let(const std::vector<Symbol>& indices, const std::vector<IndexBox>& boxes, const Expr& body,
                           DType dtype) {
  const std::string name = prefix_ + definition_.name + "." + std::to_string(++count_);
  const bool steps = !indices.empty() && indices[0] == step_;
  const Expr read = builder_.add_let({name, dtype, definition_.line, steps ? definition_.scan : std::nullopt},
                                     as_axes(builder_, indices, boxes, names_), body);
  if (gates_.may_be_zero(body)) gates_.add(read->tensor);
  return read;
}

Expr LocalDefinitions::stored(const Expr& expr, const IterationDomain& domain, DType dtype) {
  if (expr->height == 0) return expr;
  IterationDomain own;
  const auto is_own = [&](Symbol variable) { return expr->depends_on(variable) || variable == step_; };
  std::ranges::copy_if(domain.variables, std::back_inserter(own.variables), is_own);
  const auto is_apart = [&](const Affine& row) {
    return std::ranges::all_of(domain.variables, [&](Symbol v) { return !row.mentions(v) || is_own(v); });
  };
  std::ranges::copy_if(domain.nonnegative, std::back_inserter(own.nonnegative), is_apart);
  std::ranges::copy_if(domain.zero, std::back_inserter(own.zero), is_apart);
  for (const IterationDomain& candidate : {own, domain}) {
    const auto boxes = boxes_for(candidate, candidate.variables);
    if (boxes) {
      const Expr body = gather(project(candidate, candidate.variables, *boxes), expr);
      return let(candidate.variables, *boxes, body, dtype);
    }
  }
  return expr;
}

std::optional<std::vector<IndexBox>> LocalDefinitions::boxes_for(const IterationDomain& domain,
                                                                 const std::vector<Symbol>& variables) const {
  auto boxes = boxes_of(domain, variables);
  if (boxes && !variables.empty() && variables[0] == step_) (*boxes)[0] = {0, definition_.axes[0].extent - Affine(1)};
  return boxes;
}

Preimage LocalDefinitions::project(const IterationDomain& domain, const std::vector<Symbol>& kept,
                                   const std::vector<IndexBox>& boxes) const {
  KnownRanges known(builder_.program().dims);
  std::vector<Equation> equations;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    known.add(kept[k], {{{1, boxes[k].low}}, {{1, boxes[k].high}}});
    equations.push_back({kept[k], kept[k]});
  }
  return invert(domain, equations, known);
}

}  // namespace moxie
