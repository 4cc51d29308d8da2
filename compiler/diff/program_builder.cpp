#include "compiler/diff/program_builder.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {

bool ProgramBuilder::is_taken(const std::string& name) const {
  const bool is_index = std::ranges::find(program_.indices, name, &IndexDecl::name) != program_.indices.end();
  return is_index || reserved_.contains(name) || program_.find_dim(name) || program_.find_input(name) ||
         program_.find_definition(name);
}

std::string ProgramBuilder::free_name(const std::string& wanted) const {
  std::string name = wanted;
  for (int number = 2; is_taken(name); ++number) name = wanted + "_" + std::to_string(number);
  return name;
}

Expr ProgramBuilder::add_let(const LetHead& head, const std::vector<OpenAxis>& axes, const Expr& body) {
  Definition definition{free_name(head.wanted_name), head.dtype, {}, {}, false, head.line, head.scan};
  Replacement closing;
  std::vector<Affine> subscripts;
  for (const OpenAxis& open : axes) {
    const Symbol axis = Symbol::axis(static_cast<std::uint32_t>(definition.axes.size()));
    closing.emplace_back(open.index, Affine(axis) + open.first);
    subscripts.push_back(Affine(open.index) - open.first);
    definition.axes.push_back(open.axis);
  }
  definition.body = substitute(body, closing);
  const Expr read = tensor_access(definition.name, std::move(subscripts));
  add_definition(std::move(definition));
  return read;
}

void ProgramBuilder::set_body(const std::string& name, const Expr& body) {
  Definition* definition = program_.find_definition(name);
  if (!definition) throw TypeError("program " + program_.name + " has no definition '" + name + "'");
  definition->body = body;
}

void ProgramBuilder::move_behind_scans(std::size_t first) {
  std::stable_partition(program_.definitions.begin() + static_cast<std::ptrdiff_t>(first), program_.definitions.end(),
                        [](const Definition& definition) { return definition.scan.has_value(); });
}

std::string ProgramBuilder::axis_name(const Affine& extent, const std::string& preferred,
                                      const std::set<std::string>& used) const {
  const Range range = Range::extent(extent);
  const auto declared = [&](const std::string& name) {
    return std::ranges::find(program_.indices, name, &IndexDecl::name);
  };
  if (!preferred.empty() && !used.contains(preferred)) {
    const auto index = declared(preferred);
    if (index == program_.indices.end() || index->range == range) return preferred;
  }
  for (const IndexDecl& index : program_.indices) {
    if (index.range == range && !used.contains(index.name)) return index.name;
  }
  for (int number = 1;; ++number) {
    const std::string name = "i" + std::to_string(number);
    if (!is_taken(name) && !used.contains(name)) return name;
  }
}

std::vector<AxisDecl> ProgramBuilder::axes_for(const std::vector<Affine>& extents,
                                               const std::vector<std::string>& preferred,
                                               std::set<std::string> used) const {
  std::vector<AxisDecl> axes;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const std::string name = axis_name(extents[k], k < preferred.size() ? preferred[k] : "", used);
    used.insert(name);
    axes.push_back({name, extents[k], Range::extent(extents[k])});
  }
  return axes;
}

}  // namespace moxie
