#pragma once
// The C header of an AOT library.
#include <string>
#include <vector>

#include "runtime/aot/interface.h"

namespace moxie::aot {

/// `formulas` are the texts of the functions' Programs, for comments.
std::string c_header(const std::string& library, const std::vector<Interface>& functions,
                     const std::vector<std::string>& formulas);

}  // namespace moxie::aot
