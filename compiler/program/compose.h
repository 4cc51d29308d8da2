#pragma once
// Composition: the definitions of one Program become part of another.
#include <map>
#include <string>
#include <string_view>

#include "compiler/program/program.h"

namespace moxie {

struct Inclusion {
  /// Goes before the name of every included definition, as in "layer1.".
  std::string prefix;
  /// For every input of the included Program, the tensor of the surrounding one that it reads. Shapes must agree. A
  /// definition may be bound as well: the tensor takes its place, and what only the definition needed is left out,
  /// inputs included.
  std::map<std::string, std::string, std::less<>> inputs;
  /// Dims that no input shows, as expressions in the surrounding Program's dims. All others follow from the inputs'
  /// shapes.
  std::map<std::string, Affine, std::less<>> dims = {};
  /// Included definitions that become outputs of the surrounding Program, and their names there.
  std::map<std::string, std::string, std::less<>> outputs = {};
};

/// `op` with every definition that `how` binds as one more input, and without what only these definitions needed.
Program with_bound_definitions(Program op, const Inclusion& how);

/// Appends the definitions of `op` to `into`. Each of its outputs that `how.outputs` does not name becomes an ordinary
/// definition, and its random streams are renumbered so that they differ from those of `into`. Throws TypeError for
/// unknown, missing or ambiguous names and ShapeError for shapes that do not agree.
void include(Program& into, const Program& op, const Inclusion& how);

}  // namespace moxie
