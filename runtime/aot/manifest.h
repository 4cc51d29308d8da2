#pragma once
// The manifest of an AOT library: what it holds, as JSON that describes itself.
#include <string>
#include <vector>

#include "runtime/aot/interface.h"

namespace moxie::aot {

/// Raised whenever manifests or the interface of generated functions change.
inline constexpr int kManifestFormat = 1;

/// What the manifest says of one function.
struct FunctionEntry {
  Interface interface;
  std::string formula;  // as .mox text
};

struct Manifest {
  std::string library, moxie, compiler;  // the name, and the versions of what made it
  std::vector<std::string> targets;
  std::vector<FunctionEntry> functions;
};

std::string print(const Manifest& manifest);

}  // namespace moxie::aot
