#pragma once
// Which definitions of linear algebra a library computes sooner than a kernel.
#include "compiler/ir/algebra_form.h"
#include "compiler/ir/program.h"

namespace moxie {

/// Rows from which a library beats the loops of a kernel: of a factorisation by blocks, and of eigenvalues, where a
/// kernel rotates in many sweeps, of one matrix and of several, which come in lanes. (Eigenvalues and eigenvectors in
/// f32 on AVX-512, kernel and LAPACK, milliseconds: one matrix of 8, 12, 16 and 24 rows 0.008 and 0.010, 0.028 and
/// 0.016, 0.07 and 0.03, 0.4 and 0.06; 256 of 16, 24 and 32 rows 1.3 and 5.8, 8 and 17, 47 and 26.)
inline constexpr std::int64_t kLibraryRows = 64, kEigenRows = 12, kEigenRowsOfBatch = 28;

/// Elements from which every row is sorted by itself. A kernel sorts a row in every lane: of 10000 rows of 63 elements
/// (f32, one thread) it takes 1.9 ns for an element, but n log^2 n comparisons, and lanes without a row are lost.
inline constexpr std::int64_t kLibraryRowElements = 64;

inline std::int64_t library_rows(const Definition& definition) {
  const Expr& body = definition.body;
  if (sorts_row(body->algebra)) return kLibraryRowElements;
  if (algebra_form(body->algebra).factorisation != Factorisation::Eigen) return kLibraryRows;
  return definition.axes.size() > body->subscripts.size() ? kEigenRowsOfBatch : kEigenRows;
}

/// Whether the definition, outside of scans, computes linear algebra on a matrix of at least library_rows() columns, or
/// of a size that is not known when compiling; or sorts such rows.
inline bool has_library_matrix(const Definition& definition) {
  if (definition.scan || definition.body->kind != NodeKind::LinearAlgebra) return false;
  const auto& [rows, columns] = definition.body->size;
  return !rows.is_constant() || !columns.is_constant() || columns.constant() >= library_rows(definition);
}

}  // namespace moxie
