#pragma once
// Expr: an immutable, hash-consed scalar expression over indices and tensor accesses.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/expression/affine.h"
#include "compiler/expression/dtype.h"

namespace moxie {

enum class NodeKind : std::uint8_t { Constant, IndexValue, Access, Call, Reduce, LinearAlgebra, Random };
/// ArgMax and ArgMin give the position of the largest (smallest) element: of elements that are equal, or of all that
/// are NaN if one is, the smallest position. Of no elements it is infinite.
enum class ReduceKind : std::uint8_t { Sum, Product, Max, Min, LogSumExp, ArgMax, ArgMin };
inline constexpr ReduceKind kLastReduceKind = ReduceKind::ArgMin;
/// Over a matrix A[row,col]. Inverse, LogDet and Solve need A symmetric positive definite and read its lower triangle
/// (row >= col); Cholesky gives L (lower, zero above the diagonal) with L L^T = A; TriSolve solves L x = b and
/// TriSolveTransposed L^T x = b, both reading the lower triangle only; CholeskyInverse gives (L L^T)^-1 of such a
/// factor. LuSolve to LogAbsDeterminant take any square matrix and factor it by elimination with row exchanges: LuSolve
/// solves A x = b, LuSolveTransposed A^T x = b. Eigenvalues (ascending) and Eigenvectors (a column for each) are of a
/// symmetric matrix, which is read in its lower triangle too. QrQ and QrR are the factors of a matrix with at least as
/// many rows as columns: Q has orthonormal columns, R is an upper triangle with a positive diagonal, and A = Q R.
/// SingularValues (descending) and Svd, the matrices U and V of A = U diag(values) V^T, one above the other, are of
/// such a matrix too: U has as many rows as A, V as many as A has columns, and both as many columns. Sort and ArgSort
/// take a row, an expression that does not depend on col, and like the others give a whole result at once: its elements
/// in ascending order, those that are equal in the order of their positions and NaN last, or the positions of the
/// elements in that order.
enum class LinearAlgebraKind : std::uint8_t {
  Cholesky,
  Inverse,
  LogDet,
  Solve,
  TriSolve,
  TriSolveTransposed,
  CholeskyInverse,
  LuSolve,
  LuSolveTransposed,
  LuInverse,
  Determinant,
  LogAbsDeterminant,
  Eigenvalues,
  Eigenvectors,
  QrQ,
  QrR,
  SingularValues,
  Svd,
  Sort,
  ArgSort
};
inline constexpr LinearAlgebraKind kLastAlgebraKind = LinearAlgebraKind::ArgSort;
enum class RandomKind : std::uint8_t { Normal, Uniform };

const char* to_string(ReduceKind kind);         // as spelled in .mox text: "sum", "prod", "max", ...
const char* to_string(LinearAlgebraKind kind);  // "cholesky", ...
const char* to_string(RandomKind kind);         // "randn", "randu"

struct ScalarFunction;  // a row of the table in compiler/expression/functions.h
struct Node;

/// A handle on an interned node: equal expressions are the same node, so comparing is comparing pointers.
class Expr {
 public:
  Expr() = default;
  Expr(double value);                                    // NOLINT: a number is an expression
  Expr(int value) : Expr(static_cast<double>(value)) {}  // NOLINT
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  const Node& operator*() const { return *node_; }
  const Node* operator->() const { return node_.get(); }
  const Node* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Expr& other) const { return node_ == other.node_; }

 private:
  std::shared_ptr<const Node> node_;
};

/// Most matrices are square: an extent is a size.
struct MatrixSize {
  Affine rows, columns;
  MatrixSize() = default;
  MatrixSize(const Affine& extent) : MatrixSize(extent, extent) {}  // NOLINT
  MatrixSize(Affine r, Affine c) : rows(std::move(r)), columns(std::move(c)) {}
  bool operator==(const MatrixSize&) const = default;
};

/// One node. Which fields carry meaning depends on `kind`; the others keep their default.
struct Node {
  NodeKind kind = NodeKind::Constant;
  double value = 0;                // Constant
  Affine affine;                   // IndexValue
  std::string tensor;              // Access: the tensor's name
  std::vector<Affine> subscripts;  // Access: per axis, where Value(k) is the integer args[k]; LinearAlgebra: element of
                                   // the result; Random: coordinates
  const ScalarFunction* function = nullptr;                 // Call
  ReduceKind reduce = ReduceKind::Sum;                      // Reduce: of args[0] over Bound(height) in `range`;
                                                            // args[1] of ArgMax and ArgMin is the position
  Range range;                                              // Reduce
  LinearAlgebraKind algebra = LinearAlgebraKind::Cholesky;  // LinearAlgebra: args[0] is A over row = Bound(height), col
                                                            // = Bound(height-1); args[1] (solves) is b over row
  MatrixSize size;                                          // LinearAlgebra: of A; as many of both for a row
  RandomKind random = RandomKind::Normal;                   // Random
  std::int64_t stream = 0;                                  // Random
  std::vector<Expr> args;

  bool gathers = false;              // whether some access in this expression has subscripts that depend on values
  std::uint32_t height = 0;          // largest bound index in this expression, itself included
  std::vector<Symbol> free_symbols;  // sorted; axes, free indices, dims and bound indices whose reduction lies outside
  std::uint64_t hash = 0;            // of the content; the same in every process
  std::uint64_t shape_hash = 0;      // the same without the identity of Bound and Free symbols, or digits of names

  bool depends_on(Symbol symbol) const;
  bool is_constant(double v) const { return kind == NodeKind::Constant && value == v; }
};

// ---- Making expressions. None of these simplifies: what is written is what is kept. ----
Expr constant(double value);
Expr index_value(Affine value);
/// In the subscripts, Symbol::value(k) stands for the integer `values[k]`, an access to an i32 tensor.
Expr tensor_access(std::string tensor, std::vector<Affine> subscripts, std::vector<Expr> values = {});
/// The same element of another tensor.
Expr access_to(std::string tensor, const Expr& access);
/// Whether a subscript depends on a value that is read from a tensor.
inline bool reads_by_value(const Expr& access) { return access->kind == NodeKind::Access && !access->args.empty(); }
/// The subscript at `axis` as a number.
Expr subscript_value(const Expr& access, std::size_t axis);
Expr call(const ScalarFunction& function, std::vector<Expr> args);
Expr call(std::string_view function, std::vector<Expr> args);
/// Reduces `body` over `index` (a Free or Axis symbol), which is bound by the new node. Of ArgMax and ArgMin,
/// `position` is the position of each element; without one it is the index.
Expr reduce(ReduceKind kind, Symbol index, const Range& range, const Expr& body, const Expr& position = {});
/// Element `element` of the operation on the matrix `matrix` (an expression in `row` and `col`) of this size; `rhs`
/// is an expression in `row`. `element` holds two subscripts for Cholesky and Inverse, none for LogDet, one for the
/// solves.
Expr linear_algebra(LinearAlgebraKind kind, Symbol row, Symbol col, const MatrixSize& size, const Expr& matrix,
                    const Expr& rhs, std::vector<Affine> element);
/// Element `element` of Sort or ArgSort of `row`, an expression in `index`, which has `size` elements.
Expr sorted_row(LinearAlgebraKind kind, Symbol index, const Affine& size, const Expr& row, const Affine& element);
/// One draw, keyed by (seed, stream, step) and countered by `coordinates`.
Expr random(RandomKind kind, std::int64_t stream, std::vector<Affine> coordinates);

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

// ---- Taking them apart. ----
/// A reduction with its bound index made free, under a new symbol.
struct OpenedReduce {
  Symbol index;
  Range range;
  Expr body;
  Expr position;  // of ArgMax and ArgMin, empty for other kinds
};
OpenedReduce open(const Expr& reduction);
/// The reduction with what stands inside its loop, which `opened` holds, changed by `f`.
Expr map_opened(const Expr& reduction, const OpenedReduce& opened, const std::function<Expr(const Expr&)>& f);
struct OpenedLinearAlgebra {
  Symbol row, col;
  Expr matrix, rhs;  // rhs is empty where the operation has none
};
OpenedLinearAlgebra open_algebra(const Expr& algebra);

using Replacement = std::vector<std::pair<Symbol, Affine>>;
/// Replaces free symbols by affine expressions, all at once; capture is impossible as long as no replacement mentions a
/// Bound symbol.
Expr substitute(const Expr& expr, const Replacement& replacement);
/// The axes of the tensor by the subscripts of an access to it, not by value: replaces axes in the tensor's body for
/// the element that is read.
Replacement axes_by_subscripts(const Expr& access);
/// The same node with other arguments (and, for Call, Access..., all else unchanged). For Reduce and LinearAlgebra the
/// arguments must use the node's own bound symbols; prefer open() and reduce() whenever foreign expressions are brought
/// in.
Expr with_args(const Expr& expr, std::vector<Expr> args);
/// The same linear algebra, of which another element is taken.
Expr with_element(const Expr& algebra, std::vector<Affine> element);
/// Applies `f` below `expr`: opens binders, applies f to every direct child, closes them again.
Expr map_children(const Expr& expr, const std::function<Expr(const Expr&)>& f);
/// Visits every distinct node once, children first. Bodies are visited as they are stored (bound indices not opened).
void visit(const Expr& expr, const std::function<void(const Expr&)>& f);
/// Whether the expression depends on more than indices and dims.
bool depends_on_values(const Expr& expr);
/// A total order that depends on structure only: by shape, by the symbols, outer indices first, then by the names.
bool precedes(const Expr& a, const Expr& b);

}  // namespace moxie
