#pragma once
// Pattern: a definition without the names of the tensors that it reads. Definitions of one pattern have equal loops.
#include <string>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

struct Pattern {
  std::string storage;  // of what is computed: dtype, extents, layout
  std::vector<AxisDecl> axes;
  bool in_scan = false;  // the first axis is the step
  Expr body;             // reads tensors that are named after how they lie in memory
  bool operator==(const Pattern&) const = default;
};

Pattern pattern_of(const FusedProgram& fused, const Definition& definition);

}  // namespace moxie
