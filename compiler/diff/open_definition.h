#pragma once
// Definitions with their axes made open indices, and the domains these run over.
#include <optional>
#include <utility>
#include <vector>

#include "compiler/diff/inversion.h"
#include "compiler/diff/program_builder.h"
#include "compiler/program/program.h"

namespace moxie {

struct OpenDefinition {
  IterationDomain domain;  // of the axes, in order
  Replacement opening;     // axis -> open index
  Expr body;
};
OpenDefinition open_definition(const Definition& definition);
/// Whether the body has the value of this part of it wherever it needs the part: it is the whole, or a branch of a
/// `where` around the whole and nothing of the other branch, as in `where(t == 0, start, part)`.
bool is_whole_value(const Expr& body, const Expr& part);
/// Open index -> axis.
Replacement closing_of(const OpenDefinition& open);
/// The names by which the open indices went as axes.
std::vector<std::pair<Symbol, std::string>> names_of(const Definition& definition, const OpenDefinition& open);

/// The subscripts axis 0, axis 1, ... with which a body over the same axes reads a tensor of that rank.
std::vector<Affine> own_axes(std::size_t rank);

/// The domain with one more, inner index.
IterationDomain extended(const IterationDomain& domain, Symbol index, const Range& range);

/// low <= variable <= high with bounds in dims only.
struct IndexBox {
  Affine low, high;
};
/// An empty result where the domain shows no such bounds.
std::optional<IndexBox> box_of(const IterationDomain& domain, Symbol variable);
std::optional<std::vector<IndexBox>> boxes_of(const IterationDomain& domain, const std::vector<Symbol>& variables);
/// The variables of the domain that the expression depends on.
std::vector<Symbol> variables_of(const Expr& expr, const IterationDomain& domain);
/// Whether no other variable moves the ends of its range: all elements of a table are then computed from values that
/// the formula itself gives the variables.
bool has_own_range(Symbol variable, const IterationDomain& domain);

/// The variables as axes of a new definition; `names` holds the names that some of them go by.
std::vector<OpenAxis> as_axes(const ProgramBuilder& builder, const std::vector<Symbol>& variables,
                              const std::vector<IndexBox>& boxes,
                              const std::vector<std::pair<Symbol, std::string>>& names);

}  // namespace moxie
