#include "compiler/fuse/solver_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/expression/algebra_form.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Multiply-adds that one block of a kernel does in a second: the log evidence of a Gaussian process of 1000 points,
/// most of it one Cholesky factor (n^3/6 of them), took 88 ms on an H200.
constexpr double kBlockRate = 1000.0 * 1000 * 1000 / 6 / 88e-3;

/// Seconds from one column to the next: a barrier of the block, and loads that depend on what was stored before it.
/// Derived from their latencies, some 0.5 us each, not measured.
constexpr double kColumnSeconds = 1e-6;

/// How much faster the library has to be by these estimates: a plan with its calls is not replayed as a graph, and they
/// stand between kernels that could be one.
constexpr double kWorthACall = 2;

/// Matrices that kernels work on at a time: one for each multiprocessor of an A100, fewer than on later GPUs of its
/// class.
constexpr double kMatricesAtOnce = 108;

/// What linear algebra costs: multiply-adds of a kernel for each matrix and for each right-hand side, and seconds of
/// the library's calls, which wait for each other: a number for each matrix and one for each of its columns.
///
/// The seconds are derived, not measured: a call of a factorisation is some 50 to 100 us of launches; the evidence
/// above takes 0.75 ms in PyTorch, which calls cuSOLVER, so that columns take at most 0.6 us each. Columns with
/// exchanges or reflections wait about three times as often; eigenvalues and singular values are iterations that the
/// host takes part in, of which the orders of magnitude are guesses.
struct SolverCost {
  double matrix = 0, rhs = 0;   // multiply-adds
  double call = 0, column = 0;  // seconds
};

/// For `m` rows and `n` columns. Kernels find eigenvalues and singular values by some 10 sweeps of rotations. Nothing
/// where no library call is: a sort.
std::optional<SolverCost> solver_cost(LinearAlgebraKind kind, double m, double n) {
  const double square = n * n, cube = n * n * n;
  switch (kind) {
    case LinearAlgebraKind::Cholesky:
      return SolverCost{cube / 6, 0, 1e-4, 6e-7};
    case LinearAlgebraKind::CholeskyInverse:
      return SolverCost{cube / 3, 0, 2e-4, 1.2e-6};
    case LinearAlgebraKind::TriSolve:
    case LinearAlgebraKind::TriSolveTransposed:
      return SolverCost{0, square / 2, 5e-5, 1e-7};
    case LinearAlgebraKind::Determinant:
    case LinearAlgebraKind::LogAbsDeterminant:
      return SolverCost{cube / 3, 0, 1e-4, 1.8e-6};
    case LinearAlgebraKind::LuSolve:
    case LinearAlgebraKind::LuSolveTransposed:
      return SolverCost{cube / 3, square, 2e-4, 2e-6};
    case LinearAlgebraKind::LuInverse:
      return SolverCost{cube, 0, 2e-4, 2e-6};
    case LinearAlgebraKind::QrR:
      return SolverCost{m * square - cube / 3, 0, 1e-4, 1.8e-6};
    case LinearAlgebraKind::QrQ:
      return SolverCost{2 * (m * square - cube / 3), 0, 2e-4, 3.6e-6};
    case LinearAlgebraKind::Eigenvalues:
      return SolverCost{20 * cube, 0, 1e-3, 1e-5};
    case LinearAlgebraKind::Eigenvectors:
      return SolverCost{30 * cube, 0, 1e-3, 2e-5};
    case LinearAlgebraKind::SingularValues:
      return SolverCost{20 * m * square, 0, 2e-3, 2.5e-4};
    case LinearAlgebraKind::Svd:
      return SolverCost{20 * m * square + 10 * cube, 0, 2e-3, 5e-4};
    default:
      return std::nullopt;
  }
}

double extent_or_assumed(const Affine& extent, const DimValues& extents) {
  auto value = static_cast<double>(extent.constant());
  for (const auto& [symbol, coefficient] : extent.terms()) {
    const auto known = extents.find(symbol.name());
    value += static_cast<double>(coefficient) *
             (known == extents.end() ? kAssumedExtent : static_cast<double>(known->second));
  }
  return std::max(value, 0.0);
}

}  // namespace

bool is_faster_by_solver(const Definition& definition, const DimValues& extents) {
  const Expr& body = definition.body;
  const double rows = extent_or_assumed(body->size.rows, extents);
  const double columns = extent_or_assumed(body->size.columns, extents);
  const auto cost = solver_cost(body->algebra, rows, columns);
  if (!cost) return false;
  double matrices = 1, right_hand_sides = 1;
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) {
    const Symbol axis = Symbol::axis(k);
    if (std::ranges::find(body->subscripts, Affine(axis)) != body->subscripts.end()) continue;
    (body->args[0]->depends_on(axis) ? matrices : right_hand_sides) *=
        extent_or_assumed(definition.axes[k].extent, extents);
  }
  const double sides = std::ceil(right_hand_sides / kMatricesAtOnce);
  const double steps = columns * (cost->rhs > 0 ? sides : 1);
  const double of_matrix = (cost->matrix + cost->rhs * sides) / kBlockRate + steps * kColumnSeconds;
  const double by_kernel = std::ceil(matrices / kMatricesAtOnce) * of_matrix;
  const double by_library = matrices * (cost->call + cost->column * columns);
  return kWorthACall * by_library < by_kernel;
}

}  // namespace moxie
