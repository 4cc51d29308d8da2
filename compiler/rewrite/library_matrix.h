#pragma once
// Which definitions of linear algebra a library computes sooner than a kernel.
#include "compiler/ir/program.h"

namespace moxie {

/// Rows from which a blocked factorisation by a library beats the loops of a kernel.
inline constexpr std::int64_t kLibraryRows = 64;

/// Whether the definition, outside of scans, computes linear algebra on a matrix of at least kLibraryRows rows, or of a
/// number of rows that is not known when compiling.
inline bool has_library_matrix(const Definition& definition) {
  if (definition.scan || definition.body->kind != NodeKind::LinearAlgebra) return false;
  const Affine& size = definition.body->size;
  return !size.is_constant() || size.constant() >= kLibraryRows;
}

}  // namespace moxie
