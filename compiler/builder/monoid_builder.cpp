#include "compiler/builder/monoid_builder.h"

#include <fmt/format.h>

#include "compiler/analysis/condition_guards.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/monoid_scan.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

OuterIndex outer_index_of(const Index& index, std::size_t number) {
  const std::string axis = index.name().empty() ? fmt::format("i{}", number) : index.name();
  return {axis, index.symbol(), index.range(),
          index.extent() ? index.extent() : axis_extent(Program(), axis, index.range())};
}

}  // namespace

State reduce(Program& program, const std::string& name, const Monoid& monoid, const Index& index,
             const std::vector<Index>& outer, const State& elements) {
  if (elements.size() != monoid.components.size())
    throw ShapeError(fmt::format("reduction `{}`: `{}` takes elements of {} component(s), but {} were given", name,
                                 monoid.name, monoid.components.size(), elements.size()));
  MonoidReduction reduction{index.name().empty() ? "k" : index.name(), index.symbol(), index.range(), elements, {}};
  for (const Index& around : outer) reduction.outer.push_back(outer_index_of(around, reduction.outer.size()));
  const PlaceInScan position = scan_of(program, monoid, reduction, program.default_dtype);
  Program changed = program;
  for (Definition& definition : position.scan.definitions(name, last_scan(program) + 1))
    changed.definitions.push_back(std::move(definition));
  for (std::size_t k = program.definitions.size(); k < changed.definitions.size(); ++k)
    changed.definitions[k].body = with_ordered_conditions(changed, changed.definitions[k]);
  verify(changed);
  program = std::move(changed);
  return position.state(name);
}

}  // namespace moxie
