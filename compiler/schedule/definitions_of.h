#pragma once
// Which definitions the kernels of a fused Program stand for.
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// Of one Program, which must outlive it.
class DefinitionsOf {
 public:
  explicit DefinitionsOf(const FusedProgram& fused);

  /// The definitions that `kernel` computes, in the order of the Program: those that it stores, and those that only its
  /// own expressions hold, for which nothing else makes room in memory.
  std::vector<Definition> operator()(const Kernel& kernel) const;

 private:
  const FusedProgram& fused_;
  std::unordered_map<std::string_view, std::size_t> places_;  // of definitions in the Program
  std::unordered_set<std::string_view> stored_;               // what lies in memory when all steps have run
};

/// Whether nests can compute the kernel: a scan's step and linear algebra have loops of another form.
bool is_nest(const Kernel& kernel);

}  // namespace moxie
