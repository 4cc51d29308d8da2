#pragma once
// Parts of a Program: what some outputs need, and the same under other names.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

using TensorNames = std::map<std::string, std::string, std::less<>>;

/// These tensors and all that they are computed from.
std::set<std::string, std::less<>> sources_of(const Program& program, const std::vector<std::string>& tensors);

/// `program` with these definitions as its only outputs, and without the definitions and inputs that they do not need.
/// Roles are left out. Dims and indices stay.
Program slice(const Program& program, const std::vector<std::string>& outputs);

/// The definitions under other names: `names` gives the new one of those that change.
Program renamed(Program program, const TensorNames& names);

}  // namespace moxie
