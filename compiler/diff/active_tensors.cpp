#include "compiler/diff/active_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/diff/chosen_rows.h"
#include "compiler/diff/factor_reductions.h"
#include "compiler/diff/gathered_sums.h"
#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/ranged_elements.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

/// Throws unless every wanted name is known and stands once.
void check_names(const Program& program, const std::vector<std::string>& wanted, const std::vector<std::string>& known,
                 const char* what) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) == known.end()) {
      throw TypeError(fmt::format("cannot differentiate program {}: it has no {} '{}'; it has {}", program.name, what,
                                  name, fmt::join(known, ", ")));
    }
    if (std::ranges::count(wanted, name) > 1) {
      throw TypeError(
          fmt::format("cannot differentiate program {}: {} '{}' is asked for twice", program.name, what, name));
    }
    if (holds_integers(program.dtype_of(name))) {
      throw TypeError(fmt::format("cannot differentiate program {}: {} '{}' holds integers, which have no derivative",
                                  program.name, what, name));
    }
  }
}

/// Adds the definitions that read one of `active`, until there is no more to add: what a scan reads may stand below.
void add_readers(const Program& program, ActiveTensors& active) {
  const std::size_t size = active.size();
  for (const Definition& definition : program.definitions) {
    if (holds_integers(definition.dtype)) continue;  // integers are constants
    visit(definition.body, [&](const Expr& node) {
      if (node->kind == NodeKind::Access && active.contains(node->tensor)) active.insert(definition.name);
    });
  }
  if (active.size() > size) add_readers(program, active);
}

}  // namespace

void check_derivative_names(const Program& program, const std::vector<std::string>& outputs,
                            const std::vector<std::string>& wrt) {
  check_names(program, outputs, names_of(program.definitions), "definition");
  check_names(program, wrt, names_of(program.inputs), "input");
}

std::vector<std::string> real_inputs(const Program& program) {
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) {
    if (!holds_integers(input.dtype)) names.push_back(input.name);
  }
  return names;
}

Program prepared_for_derivatives(const Program& program, bool keep_outputs) {
  const Program plain =
      compute_ranged_elements(name_chosen_rows(lift_linear_algebra(leave_scans(program)), Choosers::Integers));
  Program lifted = factor_reductions(lift_gathered_sums(plain), Ties::Kept);
  for (Definition& definition : lifted.definitions) {
    definition.output = definition.output && keep_outputs;
    if (!definition.output) definition.role = OutputRole::Value;
  }
  return lifted;
}

ActiveTensors active_tensors(const Program& program, const std::vector<std::string>& wrt) {
  ActiveTensors active(wrt.begin(), wrt.end());
  add_readers(program, active);
  return active;
}

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

std::vector<std::string> real_outputs(const Program& program) {
  std::vector<std::string> names = outputs_of(program);
  std::erase_if(names, [&](const std::string& name) { return holds_integers(program.dtype_of(name)); });
  return names;
}

}  // namespace moxie
