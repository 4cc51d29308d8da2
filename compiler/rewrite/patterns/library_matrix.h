#pragma once
// Which definitions of linear algebra a library computes sooner than a kernel.
#include <algorithm>

#include "compiler/expression/algebra_form.h"
#include "compiler/program/program.h"

namespace moxie {

/// Columns from which a library beats the loops of a kernel: of a factorisation by blocks; of eigenvalues and singular
/// values, where a kernel rotates in many sweeps, of several matrices, which come in lanes; and of these, of QR and of
/// LU of one matrix. (Eigenvalues and eigenvectors in f32 on AVX-512, kernel and LAPACK, milliseconds: one matrix of 8,
/// 12, 16 and 24 rows 0.008 and 0.010, 0.028 and 0.016, 0.07 and 0.03, 0.4 and 0.06; 256 of 16, 24 and 32 rows 1.3
/// and 5.8, 8 and 17, 47 and 26. Least squares by QR of one matrix of 1000 rows and 50 columns in f64: 9.3 by a
/// kernel, 1.1 by LAPACK. The inverse by LU of one matrix of 12, 24 and 63 rows in f32, in microseconds: 15 and 4, 64
/// and 10, 735 and 76; by Cholesky, 2 and 5, 8 and 8, 60 and 50.)
inline constexpr std::int64_t kLibraryRows = 64, kSpectralRows = 28, kRowsOfOne = 12;

/// Elements from which every row is sorted by itself. A kernel sorts a row in every lane: of 10000 rows of 63 elements
/// (f32, one thread) it takes 1.9 ns for an element, but n log^2 n comparisons, and lanes without a row are lost.
inline constexpr std::int64_t kLibraryRowElements = 64;

inline std::int64_t library_rows(const Definition& definition) {
  const Expr& body = definition.body;
  if (sorts_row(body->algebra)) return kLibraryRowElements;
  const Factorisation factorisation = algebra_form(body->algebra).factorisation;
  const bool is_spectral = factorisation == Factorisation::Eigen || factorisation == Factorisation::Svd;
  const bool is_one = definition.axes.size() == body->subscripts.size() + (definition.scan ? 1 : 0);
  const bool is_serial = factorisation == Factorisation::Qr || factorisation == Factorisation::Lu;
  if (is_one && (is_spectral || is_serial)) return kRowsOfOne;
  return is_spectral ? kSpectralRows : kLibraryRows;
}

/// Whether the definition computes linear algebra on a matrix of at least library_rows() columns, or of a size that is
/// not known when compiling; or, outside of scans, sorts such rows. In a scan its elements lie in one step.
inline bool has_library_matrix(const Definition& definition) {
  if (definition.body->kind != NodeKind::LinearAlgebra) return false;
  const auto is_in_one_step = [](const Affine& element) { return !element.mentions(Symbol::axis(0)); };
  if (definition.scan &&
      (sorts_row(definition.body->algebra) || !std::ranges::all_of(definition.body->subscripts, is_in_one_step)))
    return false;
  const auto& [rows, columns] = definition.body->size;
  return !rows.is_constant() || !columns.is_constant() || columns.constant() >= library_rows(definition);
}

}  // namespace moxie
