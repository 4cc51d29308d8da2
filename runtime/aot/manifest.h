#pragma once
// The manifest of an AOT library: what it holds, as JSON that describes itself.
#include <string>
#include <string_view>
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
/// From the manifest itself, or from any file that the library is part of: `file` names it. Throws DataError where there is none, or one of another
/// version.
Manifest read_manifest(std::string_view bytes, const std::string& file);

}  // namespace moxie::aot
