#include "compiler/program/batched.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/expression/other_nodes.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Where the axis of samples stands in each tensor that has one: first, but behind the steps of a scan.
using Places = std::map<std::string, std::uint32_t, std::less<>>;

std::uint32_t place_in(const Definition& definition) { return definition.scan ? 1 : 0; }

bool has_name(const Program& program, const std::string& name) {
  return program.find_dim(name) || program.find_input(name) || program.find_definition(name) ||
         std::ranges::find(program.indices, name, &IndexDecl::name) != program.indices.end();
}

std::string new_name(const Program& program, const std::string& stem) {
  std::string name = stem;
  for (int count = 2; has_name(program, name); ++count) name = stem + std::to_string(count);
  return name;
}

bool reads_some(const Expr& body, const Places& places) {
  bool found = false;
  visit(body, [&](const Expr& e) { found |= e->kind == NodeKind::Access && places.contains(e->tensor); });
  return found;
}

/// The places in the inputs and in every definition that depends on them. In a scan a definition may read later ones,
/// at an earlier step: the search ends when it finds no more.
Places places_of(const Program& program, const std::vector<std::string>& inputs) {
  Places places;
  for (const std::string& input : inputs) {
    if (!program.find_input(input)) throw TypeError(fmt::format("'{}' has no input '{}'", program.name, input));
    places[input] = 0;
  }
  for (std::size_t before = 0; before != places.size();) {
    before = places.size();
    for (const Definition& definition : program.definitions) {
      if (reads_some(definition.body, places)) places[definition.name] = place_in(definition);
    }
  }
  return places;
}

/// With the sample's own elements.
Expr at_sample(const Expr& body, const Places& places, Symbol sample) {
  return OtherNodes([&](const Expr& node, std::vector<Expr> args) {
    const auto place = node->kind == NodeKind::Access ? places.find(node->tensor) : places.end();
    if (place == places.end()) return with_args(node, std::move(args));
    std::vector<Affine> subscripts = node->subscripts;
    subscripts.insert(subscripts.begin() + static_cast<std::ptrdiff_t>(place->second), Affine(sample));
    return tensor_access(node->tensor, std::move(subscripts), std::move(args));
  })(body);
}

Expr with_renamed(const Expr& body, const std::string& from, const std::string& to) {
  return OtherNodes([&](const Expr& node, std::vector<Expr> args) {
    if (node->kind != NodeKind::Access || node->tensor != from) return with_args(node, std::move(args));
    return tensor_access(to, node->subscripts, std::move(args));
  })(body);
}

/// Axes from `place` on are one further.
Replacement shifted_axes(std::uint32_t place, std::size_t count) {
  Replacement moved;
  for (std::uint32_t axis = place; axis < count; ++axis)
    moved.emplace_back(Symbol::axis(axis), Affine(Symbol::axis(axis + 1)));
  return moved;
}

Range substituted(const Range& range, const Replacement& replacement) {
  return range.substitute([&](Symbol symbol) -> const Affine* {
    const auto found = std::ranges::find(replacement, symbol, &Replacement::value_type::first);
    return found == replacement.end() ? nullptr : &found->second;
  });
}

void add_samples(Definition& definition, const Places& places, const AxisDecl& samples) {
  const std::uint32_t place = place_in(definition);
  const Replacement moved = shifted_axes(place, definition.axes.size());
  for (AxisDecl& axis : definition.axes) axis.range = substituted(axis.range, moved);
  definition.axes.insert(definition.axes.begin() + static_cast<std::ptrdiff_t>(place), samples);
  definition.body = at_sample(substitute(definition.body, moved), places, Symbol::axis(place));
}

/// An output of a scan, whose first axis is its steps, behind the scan, with the samples before the steps.
Definition samples_first(const Definition& steps, const std::string& name, bool has_samples) {
  Definition output{
      .name = name, .dtype = steps.dtype, .axes = steps.axes, .body = {}, .output = true, .domain = steps.domain};
  std::vector<Affine> subscripts;
  for (std::uint32_t axis = 0; axis < output.axes.size(); ++axis) subscripts.emplace_back(Symbol::axis(axis));
  if (has_samples) {
    const Replacement swapped = {{Symbol::axis(0), Affine(Symbol::axis(1))},
                                 {Symbol::axis(1), Affine(Symbol::axis(0))}};
    for (AxisDecl& axis : output.axes) axis.range = substituted(axis.range, swapped);
    std::swap(output.axes[0], output.axes[1]);
    std::swap(subscripts[0], subscripts[1]);
  }
  output.body = tensor_access(steps.name, std::move(subscripts));
  return output;
}

/// Moves all outputs of the scan behind it, so that outputs stay in their order.
void put_samples_first(Program& program, std::uint32_t scan, const Places& places) {
  const auto is_inside = [&](const Definition& definition) {
    return definition.scan && definition.scan->number == scan;
  };
  std::vector<Definition> outputs;
  for (Definition& definition : program.definitions) {
    if (!is_inside(definition) || !definition.output) continue;
    const std::string name = definition.name, steps = new_name(program, name + ".steps");
    for (Definition& reader : program.definitions) reader.body = with_renamed(reader.body, name, steps);
    definition.name = steps;
    definition.output = false;
    outputs.push_back(samples_first(definition, name, places.contains(name)));
  }
  const auto last = std::ranges::find_if(program.definitions.rbegin(), program.definitions.rend(), is_inside);
  program.definitions.insert(last.base(), outputs.begin(), outputs.end());
}

}  // namespace

Program batched(const Program& program, const std::vector<std::string>& inputs) {
  const Places places = places_of(program, inputs);
  Program result = program;
  const std::string batch = new_name(program, "batch");
  result.dims.push_back({.name = batch, .value = {}, .dynamic = true});
  const Affine extent(Symbol::dim(batch));
  const AxisDecl samples{new_name(result, "sample"), extent, Range::extent(extent)};
  result.indices.push_back({samples.name, samples.range});
  for (InputDecl& input : result.inputs) {
    input.role = InputRole::Data;
    input.start = {};
    if (places.contains(input.name)) input.shape.insert(input.shape.begin(), extent);
  }
  for (Definition& definition : result.definitions) {
    definition.role = {};
    if (places.contains(definition.name)) add_samples(definition, places, samples);
  }
  std::set<std::uint32_t> scans;
  for (const Definition& definition : program.definitions) {
    if (definition.output && definition.scan && places.contains(definition.name)) scans.insert(definition.scan->number);
  }
  for (const std::uint32_t scan : scans) put_samples_first(result, scan, places);
  return result;
}

}  // namespace moxie
