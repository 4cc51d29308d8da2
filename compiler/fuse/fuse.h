#pragma once
// Fusion: the definitions of an optimised Program become kernels (one launch each) and library calls.
//
// A kernel has up to two shared loops: the vector loop, whose index is the fastest axis of most of what is read and
// written, and the sample loop, the longest of the others. A root is one definition computed by the kernel. Either it
// has both loops among its axes and stores an element (a map), or it sums over one of them and accumulates. All other
// axes are loops of the root's own.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/fuse/scan_position.h"
#include "compiler/program/program.h"

namespace moxie {

struct LoopIndex {
  Symbol symbol;  // Free
  Range range;
  std::string name;    // for printed text
  bool lanes = false;  // its iterations are lanes of a vector
  bool operator==(const LoopIndex&) const = default;
};

/// The loops of a root whose elements continue each other: see PrefixReduction of
/// compiler/rewrite/patterns/prefix_reduction.h.
struct PrefixLoops {
  ReduceKind kind = ReduceKind::Sum;
  LoopIndex position;              // within the block; each combines what precedes it with the body of the root
  std::optional<LoopIndex> block;  // blocks do not wait for each other
  Expr start;                      // what precedes the first position (of the block)
  bool operator==(const PrefixLoops&) const = default;
};

struct KernelRoot {
  Definition definition;           // as in the optimised Program
  std::vector<Affine> subscripts;  // of the element that is computed, in loop symbols
  std::vector<LoopIndex> locals;   // loops of this root alone, outermost first
  Expr body;                       // in loop symbols; of an accumulating root: the summand
  std::optional<ReduceKind> accumulate;
  bool stored = true;                      // false: used inside this kernel only
  std::optional<PrefixLoops> prefix = {};  // such a root is alone in its kernel, and its body what each position adds
  bool operator==(const KernelRoot&) const = default;
};

struct Kernel {
  std::string name;
  std::optional<LoopIndex> vector;
  std::optional<LoopIndex> sample;
  bool reduces_vector = false;  // accumulating roots sum over the vector loop
  std::vector<KernelRoot> roots;
  std::string reason;  // why these loops
  bool operator==(const Kernel&) const = default;
};

/// A matrix, or one for every element of a batch, in a tensor: which of its axes, by number, are rows and columns. Axes
/// next to each other are one index of the matrix.
struct ProductOperand {
  std::string tensor;
  std::vector<std::uint32_t> rows, columns;
  std::vector<std::optional<std::uint32_t>> batch;  // none: the same matrix along this axis of the batch
  std::optional<Affine> step = {};                  // only the slice there, of the first axis, is read
  bool operator==(const ProductOperand&) const = default;
};

/// out[b,i,j] = alpha * sum_k left[b,i,k] * right[b,k,j] by BLAS, for every element b of the batch. Each of i, j and k
/// may stand for several axes, whose extents `rows`, `columns` and `depth` list, as `batch` does those of b. In a scan
/// the result is the slice at the step. A row may sum a part of the depth only, `band`, in which kProductRow is its
/// number; nothing else of the operands is looked at then. If it is `masked`, the left operand is zero outside of the
/// band, and there the right operand is looked at for elements that times zero are not zero. Where `needed` gives a
/// range of columns for each row, nobody reads the others, and they may hold anything.
inline constexpr const char* kProductRow = "%row";
struct MatrixProduct {
  Definition definition;
  ProductOperand left, right, out;
  std::vector<Affine> batch, rows, columns, depth;
  double alpha = 1;
  std::optional<Range> band = {}, needed = {};
  bool masked = false;
  std::vector<std::string> slices = {};  // dims: the result is added to what is there unless all of them are 0
  bool operator==(const MatrixProduct&) const = default;
};
/// "y = x x w", with the extents of the batch if there is one.
std::string product_text(const MatrixProduct& product);

/// A definition of linear algebra on whole matrices that a library computes (has_library_matrix(); on a GPU also
/// is_faster_by_solver()). All operands are
/// plain accesses in the dtype of the definition, and lie row by row. In a scan it computes the matrices of the step.
struct AlgebraCall {
  Definition definition;
  bool operator==(const AlgebraCall&) const = default;
};
/// "L = cholesky(K)"
std::string call_text(const AlgebraCall& call);
/// The tensors that it reads.
std::vector<std::string> operands_of(const AlgebraCall& call);

/// A tensor that an ordered sum reads, at axes of its definition and at kOrderedElement; none where `tensor` is empty.
struct OrderedOperand {
  std::string tensor;
  std::vector<Affine> subscripts;
  bool multiplies_zeros = false;  // of a weight or scale: see OrderedFactor
  bool operator==(const OrderedOperand&) const = default;
};

/// Which keys an ordered sum selects: see OrderedSum.
struct OrderedSelection {
  bool above = false, with_equal = false;
  std::optional<Affine> tie_limit = {};
  bool tie_below = true;
  bool operator==(const OrderedSelection&) const = default;
};

/// A definition that is an OrderedSum of compiler/rewrite/patterns/ordered_sum.h over tensors of the dtype in which it
/// is computed: its keys are sorted, row by row, and every element is a prefix sum of the weights in that order.
struct OrderedSumCall {
  Definition definition;
  Affine count;  // of the elements of a row
  OrderedOperand key, query, weight, scale;
  OrderedSelection selection;
  double coefficient = 1;
  std::optional<std::int64_t> most = {};  // a count of more keys is stored as this one: no reader tells them apart
  bool operator==(const OrderedSumCall&) const = default;
};
/// The index of the sum in the subscripts of its operands.
inline const Symbol kOrderedElement = Symbol::bound(1);
/// "rank = ordered sum(r2, r2)"
std::string call_text(const OrderedSumCall& call);
std::vector<std::string> operands_of(const OrderedSumCall& call);

using ScanStep = std::variant<Kernel, MatrixProduct, AlgebraCall>;

/// The definitions of a scan: what is to be done, in order, at every step from 0 to `extent` or back, with the step as
/// the argument kScanStep. All steps of a tensor are kept unless it is folded.
struct ScanLoop {
  std::string name;  // of the index
  Affine extent;
  bool backwards = false;
  std::vector<ScanStep> steps;
  bool operator==(const ScanLoop&) const = default;
};

using Step = std::variant<Kernel, MatrixProduct, AlgebraCall, OrderedSumCall, ScanLoop>;

struct FusedProgram {
  Program program;  // optimised
  std::vector<Step> steps;
  /// Axes from slowest to fastest, for tensors whose place in memory is the compiler's choice.
  std::map<std::string, std::vector<std::uint32_t>> layouts;
  /// How many of their last steps the folded tensors of scans keep (see fold_storage.h).
  std::map<std::string, std::int64_t> folded;
};
/// The argument that holds where the current step of a scan's tensor lies.
std::string argument_of_step(const FusedProgram& fused, const std::string& tensor);

/// What computes large matrix products, linear algebra on large matrices and ordered sums: BLAS, LAPACK and a sort; a
/// BLAS the products, and kernels the rest; kernels like any other, where no library is to be needed; or a GPU's BLAS
/// the products and its solver the linear algebra that it is faster at (is_faster_by_solver()).
enum class Products : std::uint8_t { library, blas, kernels, blas_and_solver };

/// How intermediates lie in memory: as the loops of their kernels want them, with copies of what these would gather, or
/// row by row, without copies. What scatters give, which have loops of one form only, lies as these want it in both.
enum class Layouts : std::uint8_t { chosen, row_major };

/// `extents` are typical values of dims, by which ordered sums are sorted or compared pair by pair; kAssumedExtent
/// where there is none.
FusedProgram fuse(const Program& optimised, Products products = Products::library, Layouts layouts = Layouts::chosen,
                  const DimValues& extents = {});
/// Those of a scan, or the step itself.
std::vector<const Kernel*> kernels_of(const Step& step);
std::vector<const MatrixProduct*> products_of(const Step& step);
std::vector<const AlgebraCall*> algebra_calls_of(const Step& step);

/// Lanes assumed by the cost model.
constexpr double kAssumedLanes = 16;

/// The loops that suit a definition best, by an estimate of vector operations.
struct LoopChoice {
  /// An axis, or `kReduced` for the index of the reduction at the root, or none.
  static constexpr int kReduced = -2;
  static constexpr int kNone = -1;
  int vector = kNone;
  int sample = kNone;
  double operations = 0;
  /// The axis that lies fastest in memory, where that is the compiler's choice.
  int fastest = kNone;
};

struct ProductTensors;
/// For every definition. Consumers choose before producers, so that a tensor whose place in memory is free is laid out
/// as most reads want it.
std::map<std::string, LoopChoice> choose_loops(const Program& program, const ProductTensors& products);

}  // namespace moxie
