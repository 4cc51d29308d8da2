#include <fmt/format.h>

#include <cmath>
#include <set>

#include "compiler/analysis/verify_definition.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/identifiers.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

void check_name(std::set<std::string>& taken, const std::string& name, std::string_view what) {
  if (!is_identifier(name)) {
    throw TypeError(fmt::format("{} `{}`: names consist of letters, digits, `_` and inner dots and start with no digit",
                                what, name));
  }
  if (is_reserved(name))
    throw TypeError(fmt::format("{} `{}`: this is a word of the language; choose another name", what, name));
  if (!taken.insert(name).second)
    throw TypeError(fmt::format("{} `{}`: one name names one thing, but this one is taken", what, name));
}

void check_names(const Program& program) {
  std::set<std::string> taken;
  for (const DimDecl& dim : program.dims) check_name(taken, dim.name, "dim");
  for (const IndexDecl& index : program.indices) check_name(taken, index.name, "index");
  for (const InputDecl& input : program.inputs) check_name(taken, input.name, "input");
  for (const Definition& definition : program.definitions) check_name(taken, definition.name, "definition");
}

void check_dims_only(const Program& program, const Affine& affine, const std::string& where) {
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (symbol.is_dim() && program.find_dim(symbol.name())) continue;
    throw TypeError(
        fmt::format("{}: `{}` mentions `{}`, which is no declared dim", where, print(affine), symbol.name()));
  }
}

void check_extent(const Program& program, const Affine& extent, const std::string& where) {
  check_dims_only(program, extent, where);
  if (extent.is_constant() && extent.constant() < 0)
    throw ShapeError(fmt::format("{} has the negative extent {}", where, print(extent)));
}

void check_index(const Program& program, const IndexDecl& index) {
  const std::string where = fmt::format("index `{}`", index.name);
  check_range_form(index.range, where);
  for (const auto* bounds : {&index.range.lows, &index.range.highs}) {
    for (const Bound& bound : *bounds) check_dims_only(program, bound.value, where);
  }
}

void check_shape(const Program& program, const std::vector<Affine>& shape, const std::string& tensor) {
  for (std::size_t k = 0; k < shape.size(); ++k)
    check_extent(program, shape[k], fmt::format("axis {} of `{}`", k, tensor));
}

void check_domain(const ValueDomain& domain, const std::string& tensor, DType dtype) {
  const auto fail = [&](const char* reason) {
    throw TypeError(fmt::format("`{}` is declared {}, but {}", tensor, to_string(domain), reason));
  };
  for (const auto& bound : {domain.low, domain.high}) {
    if (!bound) continue;
    if (!std::isfinite(bound->value)) fail("the bound of a domain is a finite number");
    if (holds_integers(dtype) && bound->value != stored_value(dtype, bound->value))
      fail("the bound of integers is one; write another bound");
  }
  if (!domain.low || !domain.high) return;
  const bool is_point = domain.low->value == domain.high->value && !domain.low->open && !domain.high->open;
  if (domain.low->value >= domain.high->value && !is_point) fail("no number is both");
}

void check_recomputed(const Program& program, const Definition& definition) {
  if (!definition.recomputed) return;
  const std::string reason = why_kept(program, definition);
  if (reason.empty()) return;
  throw TypeError(fmt::format("definition `{}` cannot be recomputed: {}; define it with let", definition.name, reason));
}

/// The definitions of a scan stand together and have their first axis in common, all of it.
void check_scans(const Program& program) {
  std::set<std::uint32_t> seen;
  for (const std::span<const Definition> group : groups_of(program)) {
    const Definition& first = group[0];
    if (!first.scan) continue;
    if (!seen.insert(first.scan->number).second)
      throw TypeError(fmt::format("definition `{}` belongs to a scan that has ended before it", first.name));
    if (const auto& points = first.scan->checkpoints; points && points->every) {
      const std::string problem = spacing_problem(program, *points->every);
      if (!problem.empty())
        throw ShapeError(fmt::format("the checkpoints of the scan of `{}` are taken every 1, 2, 3, .. steps: {}; {}",
                                     first.name, problem, kSpacingRemedy));
    }
    for (const Definition& member : group) {
      const bool steps = !member.axes.empty() && member.axes[0] == first.axes[0] &&
                         member.axes[0].range == Range::extent(member.axes[0].extent);
      if (steps) continue;
      throw ShapeError(
          fmt::format("definition `{}` of a scan does not have the scan's index as its first axis, from 0 to "
                      "the end; define it outside of the scan",
                      member.name));
    }
  }
}

void check_role(const Program& program, const Definition& definition) {
  if (definition.role == OutputRole::Value) return;
  const std::string where = fmt::format("definition `{}`", definition.name);
  if (!definition.output || definition.scan)
    throw TypeError(where + " has a role in training, but is no output outside of scans");
  if (definition.role == OutputRole::Loss && !definition.axes.empty())
    throw ShapeError(fmt::format("the loss `{}` is not a scalar: it has {} axes; add its elements up", definition.name,
                                 definition.axes.size()));
  if (definition.role != OutputRole::Next) return;
  const std::string state = definition.name.starts_with(kNextPrefix) ? definition.name.substr(kNextPrefix.size()) : "";
  const InputDecl* input = program.find_input(state);
  if (!input || input->role != InputRole::State || input->shape != program.shape_of(definition.name) ||
      input->dtype != definition.dtype)
    throw TypeError(where + " is the next value of no state of its shape and dtype");
}

/// Parameters and states, predictions and the loss.
void check_roles(const Program& program) {
  for (const InputDecl& input : program.inputs) {
    if (input.role == InputRole::Data) continue;
    if (const std::string problem = problem_of(input.start, input.shape.size()); !problem.empty())
      throw TypeError(fmt::format("`{}` cannot start as {}: {}", input.name, to_string(input.start), problem));
  }
  std::string loss;
  for (const Definition& definition : program.definitions) {
    check_role(program, definition);
    if (definition.role != OutputRole::Loss) continue;
    if (!loss.empty())
      throw TypeError(
          fmt::format("`{}` and `{}` are both the loss; add them up in one definition", loss, definition.name));
    loss = definition.name;
  }
}

}  // namespace

void verify(const Program& program) {
  check_names(program);
  for (const DimDecl& dim : program.dims) {
    if (dim.value && *dim.value < 0) throw ShapeError(fmt::format("dim `{}` is negative: {}", dim.name, *dim.value));
  }
  for (const IndexDecl& index : program.indices) check_index(program, index);
  for (const InputDecl& input : program.inputs) {
    check_shape(program, input.shape, input.name);
    check_domain(input.domain, input.name, input.dtype);
  }
  check_scans(program);
  check_roles(program);
  for (std::size_t k = 0; k < program.definitions.size(); ++k) {
    const Definition& definition = program.definitions[k];
    for (std::size_t axis = 0; axis < definition.axes.size(); ++axis)
      check_extent(program, definition.axes[axis].extent, fmt::format("axis {} of `{}`", axis, definition.name));
    check_domain(definition.domain, definition.name, definition.dtype);
    verify_definition(program, k);
    check_recomputed(program, definition);
  }
}

}  // namespace moxie
