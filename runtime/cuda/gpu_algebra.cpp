#include "runtime/cuda/gpu_algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "compiler/expression/algebra_form.h"
#include "compiler/support/error.h"
#include "runtime/elements.h"

namespace moxie::cuda {
namespace {

using enum LinearAlgebraKind;

/// Blocks of a copy: a few times as many as a large GPU holds at a time (132 multiprocessors with 8 of 256 threads);
/// their threads go on to further elements.
constexpr std::int64_t kMaxBlocks = 4096;

int to_solver_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max())
    throw DeviceError(fmt::format("a matrix has an extent of {}, above the 2^31 that cuSOLVER takes", value));
  return static_cast<int>(value);
}

/// A matrix on the device, in elements as MatrixPlace counts them.
struct Placed {
  DevicePointer first = 0;
  std::int64_t row = 0, column = 0;
};

/// A matrix in the order of the libraries, `stride` elements from column to column; or, if `transposed`, from row to
/// row: they see the transposed matrix then.
struct Ordered {
  DevicePointer first = 0;
  std::int64_t stride = 1;
  bool transposed = false;
  Placed placed() const { return transposed ? Placed{first, stride, 1} : Placed{first, 1, stride}; }
};

/// Strides of a matrix as the libraries take them, if they do. An extent of 1 has no stride.
std::optional<Ordered> in_order(const MatrixPlace& place, std::int64_t rows, std::int64_t columns) {
  if ((place.row_stride == 1 || rows == 1) && (columns == 1 || place.column_stride >= rows))
    return Ordered{0, columns == 1 ? rows : place.column_stride, false};
  if ((place.column_stride == 1 || columns == 1) && (rows == 1 || place.row_stride >= columns))
    return Ordered{0, rows == 1 ? columns : place.row_stride, true};
  return std::nullopt;
}

/// Blocks of memory one after the other, aligned as cuSOLVER asks of its workspace.
class ScratchLayout {
 public:
  std::size_t add(std::size_t bytes) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t place = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Everything that one matrix after the other of a call is computed in, as offsets into the workspace.
struct Scratch {
  std::size_t matrix = 0, result = 0, vector = 0, signs = 0, swaps = 0, info = 0, work = 0, bytes = 0;
  int work_elements = 0;
};

/// One call on matrices of one dtype. Matrices are copied where they are factored: to the result if the library can
/// take it for a matrix, else to the workspace.
template <class T>
class SolverCall {
 public:
  /// `work_elements` is what an earlier work_elements() gave, if it is known.
  SolverCall(Gpu& gpu, Solver& solver, const MatrixKernels& kernels, const AlgebraCall& call, const AlgebraShape& shape,
             std::optional<int> work_elements = {})
      : gpu_(gpu),
        solver_(solver),
        kernels_(kernels),
        kind_(call.definition.body->algebra),
        name_(call.definition.name),
        shape_(shape),
        rows_(shape.rows),
        columns_(shape.matrix_columns),
        m_(to_solver_int(rows_)),
        n_(to_solver_int(columns_)),
        in_order_(in_order(shape.out, rows_, solves() ? shape.columns : columns_)),
        scratch_(layout(work_elements)) {}

  std::size_t workspace_bytes() const { return scratch_.bytes; }
  int work_elements() const { return scratch_.work_elements; }

  void run(const AlgebraAddresses& addresses) {
    if (rows_ == 0 && algebra_form(kind_).elements > 0) return;
    at_ = addresses;
    for (number_ = 0; number_ < batch_count(shape_); ++number_) {
      const AlgebraElement element = element_of(shape_, number_);
      matrix_ = {address(at_.matrix, element.matrix), shape_.matrix.row_stride, shape_.matrix.column_stride};
      rhs_ = {address(at_.rhs, element.rhs), shape_.rhs.row_stride, shape_.rhs.column_stride};
      out_ = {address(at_.out, element.out), shape_.out.row_stride, shape_.out.column_stride};
      run_one();
    }
  }

 private:
  void run_one() {
    switch (kind_) {
      case Cholesky:
        return cholesky();
      case CholeskyInverse:
        return invert_factor();
      case TriSolve:
      case TriSolveTransposed:
        return solve_triangle();
      case QrQ:
      case QrR:
        return orthogonal();
      case Eigenvalues:
      case Eigenvectors:
        return eigen();
      case SingularValues:
      case Svd:
        return singular();
      default:
        return general();
    }
  }

  // ---- Factorisations ----

  /// The lower triangle, whose upper one the library may have written to.
  void cholesky() {
    const Ordered a = result();
    copy(a.placed(), matrix_, MatrixPart::lower);
    const int length = scratch_.work_elements;
    check(f().potrf(handle(), triangle_of(a), n_, pointer(a.first), stride_of(a), work(), length, info()));
    check_pivots(a, PivotRule::positive);
    copy(out_, a.placed(), MatrixPart::lower);
  }

  void invert_factor() {
    const Ordered a = result();
    copy(a.placed(), matrix_, MatrixPart::lower);
    const int length = scratch_.work_elements;
    check(f().potri(handle(), triangle_of(a), n_, pointer(a.first), stride_of(a), work(), length, info()));
    copy(out_, a.placed(), MatrixPart::mirrored);
  }

  /// To the library L x = b is x^T L^T = b^T where x lies row by row, and L is the transposed of an upper triangle
  /// where that does.
  void solve_triangle() {
    Ordered l{in_scratch(scratch_.matrix), rows_, false};
    if (const auto in_place = in_order(shape_.matrix, rows_, rows_))
      l = {matrix_.first, in_place->stride, in_place->transposed};
    else
      copy(l.placed(), matrix_, MatrixPart::lower);
    const Ordered x = result();
    copy(x.placed(), rhs_, rows_, shape_.columns);
    const bool transposed = (kind_ == TriSolveTransposed) != (l.transposed != x.transposed);
    const int sides = to_solver_int(shape_.columns);
    solver_.solve_triangle()(dtype(),
                             {.right = x.transposed,
                              .upper = l.transposed,
                              .transposed = transposed,
                              .m = x.transposed ? sides : m_,
                              .n = x.transposed ? m_ : sides,
                              .triangle = l.first,
                              .b = x.first,
                              .triangle_stride = stride_of(l),
                              .b_stride = stride_of(x)},
                             gpu_.stream());
    if (!in_order_) copy(out_, x.placed(), rows_, shape_.columns);
  }

  /// By LU with row exchanges.
  void general() {
    const Ordered a{in_scratch(scratch_.matrix), std::max<std::int64_t>(rows_, 1), false};
    if (n_ > 0) {
      copy(a.placed(), matrix_);
      check(f().getrf(handle(), n_, n_, pointer(a.first), n_, work(), swaps(), info()));
    }
    if (kind_ == Determinant || kind_ == LogAbsDeterminant) {
      kernels_.launch("determinant_of", dtype(), 1,
                      {out_.first, a.first, number_of(rows_ + 1), number_of(rows_), in_scratch(scratch_.swaps),
                       number_of(kind_ == LogAbsDeterminant ? 1 : 0)});
      return;
    }
    check_pivots(a, PivotRule::not_zero);
    const Ordered x = result();
    if (kind_ == LuInverse)
      copy(x.placed(), x.placed(), MatrixPart::unit);
    else
      copy(x.placed(), rhs_, rows_, shape_.columns);
    const bool transposed = (kind_ == LuSolveTransposed) != x.transposed;
    const std::int64_t columns = kind_ == LuInverse ? rows_ : shape_.columns;
    check(f().getrs(handle(), transposed ? cusolver::kTranspose : cusolver::kNoTranspose, n_, to_solver_int(columns),
                    pointer(a.first), n_, swaps(), pointer(x.first), stride_of(x), info()));
    if (!keeps_in_place()) copy(out_, x.placed(), rows_, columns);
  }

  /// The diagonal of R is made positive.
  void orthogonal() {
    const Ordered a{in_scratch(scratch_.matrix), rows_, false};
    const DevicePointer signs = in_scratch(scratch_.signs);
    copy(a.placed(), matrix_);
    T* const scales = pointer(in_scratch(scratch_.vector));
    const int length = scratch_.work_elements;
    check(f().geqrf(handle(), m_, n_, pointer(a.first), m_, scales, work(), length, info()));
    check_pivots(a, PivotRule::finite_not_zero);
    kernels_.launch("signs_of", dtype(), ceil_div(columns_, MatrixKernels::kBlockThreads),
                    {signs, a.first, number_of(rows_ + 1), number_of(columns_)});
    if (kind_ == QrR) return copy(out_, a.placed(), columns_, columns_, MatrixPart::upper, signs);
    check(f().orgqr(handle(), m_, n_, n_, pointer(a.first), m_, scales, work(), length, info()));
    copy(out_, a.placed(), rows_, columns_, MatrixPart::all, 0, signs);
  }

  void eigen() {
    const Ordered a{in_scratch(scratch_.matrix), rows_, false};
    const DevicePointer values = in_scratch(scratch_.vector), signs = in_scratch(scratch_.signs);
    copy(a.placed(), matrix_, MatrixPart::mirrored);
    check_finite(a.first, rows_ * rows_);
    check(f().syevd(handle(), kind_ == Eigenvectors ? cusolver::kVectors : cusolver::kValues, cusolver::kLower, n_,
                    pointer(a.first), n_, pointer(values), work(), scratch_.work_elements, info()));
    check_pivots(a, PivotRule::converged);
    if (kind_ == Eigenvalues) return copy(out_, {values, 1, rows_}, rows_, 1);
    find_signs(a.first, rows_, 1);
    copy(out_, a.placed(), rows_, rows_, MatrixPart::all, 0, signs);
  }

  /// U and V below each other; the library gives V^T.
  void singular() {
    const Ordered a{in_scratch(scratch_.matrix), rows_, false};
    const DevicePointer values = in_scratch(scratch_.vector), signs = in_scratch(scratch_.signs);
    const DevicePointer u = in_scratch(scratch_.result), vt = address(u, rows_ * columns_);
    copy(a.placed(), matrix_);
    check_finite(a.first, rows_ * columns_);
    const auto wanted = static_cast<signed char>(kind_ == Svd ? 'S' : 'N');
    check(f().gesvd(handle(), wanted, wanted, m_, n_, pointer(a.first), m_, pointer(values), pointer(u), m_,
                    pointer(vt), n_, work(), scratch_.work_elements, nullptr, info()));
    check_pivots(a, PivotRule::converged);
    if (kind_ == SingularValues) return copy(out_, {values, 1, columns_}, columns_, 1);
    find_signs(vt, 1, columns_);
    copy(out_, {u, 1, rows_}, rows_, columns_, MatrixPart::all, 0, signs);
    const Placed below{address(out_.first, rows_ * out_.row), out_.row, out_.column};
    copy(below, {vt, columns_, 1}, columns_, columns_, MatrixPart::all, 0, signs);
  }

  // ---- Memory ----

  bool solves() const { return algebra_form(kind_).has_rhs; }
  /// Whether the result becomes what the library works in. It takes right-hand sides of LU column by column alone.
  bool keeps_in_place() const {
    const bool by_lu = kind_ == LuSolve || kind_ == LuSolveTransposed;
    return in_order_ && !(by_lu && in_order_->transposed);
  }
  Ordered result() const {
    if (keeps_in_place()) return {out_.first, in_order_->stride, in_order_->transposed};
    return {in_scratch(scratch_.result), rows_, false};
  }

  /// Of the result, where it is not computed in place.
  std::int64_t result_elements() const {
    if (kind_ == Svd) return (rows_ + columns_) * columns_;
    const bool is_copied_from_matrix = kind_ == QrQ || kind_ == QrR || kind_ == Eigenvalues || kind_ == Eigenvectors;
    if (is_copied_from_matrix || algebra_form(kind_).elements == 0 || keeps_in_place()) return 0;
    return rows_ * (solves() ? shape_.columns : columns_);
  }

  Scratch layout(std::optional<int> known_elements) {
    const auto elements = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(T); };
    const bool is_factor = kind_ == Cholesky || kind_ == CholeskyInverse;
    const bool is_triangle = kind_ == TriSolve || kind_ == TriSolveTransposed;
    const bool copies_matrix = is_triangle ? !in_order(shape_.matrix, rows_, rows_) : !is_factor;
    ScratchLayout memory;
    Scratch scratch;
    scratch.matrix = memory.add(copies_matrix ? elements(rows_ * columns_) : 0);
    scratch.result = memory.add(elements(result_elements()));
    scratch.vector = memory.add(elements(columns_));
    scratch.signs = memory.add(elements(columns_));
    scratch.swaps = memory.add(static_cast<std::size_t>(columns_) * sizeof(int));
    scratch.info = memory.add(sizeof(int));
    scratch.work_elements = known_elements ? *known_elements : rows_ == 0 ? 0 : find_work_elements();
    scratch.work = memory.add(elements(scratch.work_elements));
    scratch.bytes = memory.bytes();
    return scratch;
  }

  /// What the library asks for: its functions do not look at the matrices.
  int find_work_elements() {
    int length = 0, other = 0;
    const int stride = in_order_ ? to_solver_int(in_order_->stride) : m_;
    const int triangle = in_order_ && in_order_->transposed ? cusolver::kUpper : cusolver::kLower;
    const int vectors = kind_ == Eigenvectors ? cusolver::kVectors : cusolver::kValues;
    switch (algebra_form(kind_).factorisation) {
      case Factorisation::Cholesky:
        check(f().potrf_size(handle(), triangle, n_, nullptr, stride, &length));
        break;
      case Factorisation::None:
        if (kind_ == CholeskyInverse) check(f().potri_size(handle(), triangle, n_, nullptr, stride, &length));
        break;
      case Factorisation::Lu:
        check(f().getrf_size(handle(), n_, n_, nullptr, n_, &length));
        break;
      case Factorisation::Qr:
        check(f().geqrf_size(handle(), m_, n_, nullptr, m_, &length));
        check(f().orgqr_size(handle(), m_, n_, n_, nullptr, m_, nullptr, &other));
        break;
      case Factorisation::Eigen:
        check(f().syevd_size(handle(), vectors, cusolver::kLower, n_, nullptr, n_, nullptr, &length));
        break;
      case Factorisation::Svd:
        check(f().gesvd_size(handle(), m_, n_, &length));
        break;
    }
    return std::max(length, other);
  }

  // ---- Calls ----

  const cusolver::Functions<T>& f() { return solver_.library().functions<T>(); }
  cusolver::Handle handle() { return solver_.library().handle_of(gpu_.stream()); }
  void check(cusolver::Status status) {
    if (status == 0) return;
    solver_.library().check(
        status, fmt::format("{}({} of [{},{}] in {})", name_, to_string(kind_), rows_, columns_, to_string(dtype())));
  }

  static constexpr DType dtype() { return std::is_same_v<T, float> ? DType::f32 : DType::f64; }
  static std::uint64_t number_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  static DevicePointer address(DevicePointer first, std::int64_t element) {
    return first + static_cast<DevicePointer>(element) * sizeof(T);
  }
  static T* pointer(DevicePointer at) { return reinterpret_cast<T*>(at); }
  static int triangle_of(const Ordered& a) { return a.transposed ? cusolver::kUpper : cusolver::kLower; }
  static int stride_of(const Ordered& a) { return to_solver_int(a.stride); }
  DevicePointer in_scratch(std::size_t offset) const { return at_.workspace + offset; }
  T* work() const { return pointer(in_scratch(scratch_.work)); }
  int* info() const { return reinterpret_cast<int*>(in_scratch(scratch_.info)); }
  int* swaps() const { return reinterpret_cast<int*>(in_scratch(scratch_.swaps)); }

  static std::int64_t blocks_for(std::int64_t elements) {
    return std::clamp<std::int64_t>(ceil_div(elements, MatrixKernels::kBlockThreads), 1, kMaxBlocks);
  }

  void copy(const Placed& to, const Placed& from, MatrixPart part = MatrixPart::all) const {
    copy(to, from, rows_, columns_, part);
  }
  void copy(const Placed& to, const Placed& from, std::int64_t rows, std::int64_t columns,
            MatrixPart part = MatrixPart::all, DevicePointer row_signs = 0, DevicePointer column_signs = 0) const {
    if (rows == 0 || columns == 0) return;
    kernels_.launch(
        "copy_matrix", dtype(), blocks_for(rows * columns),
        {to.first, number_of(to.row), number_of(to.column), from.first, number_of(from.row), number_of(from.column),
         number_of(rows), number_of(columns), static_cast<std::uint64_t>(part), row_signs, column_signs});
  }
  void check_pivots(const Ordered& a, PivotRule rule) const {
    kernels_.launch("check_pivots", dtype(), 1,
                    {a.first, number_of(a.stride + 1), number_of(columns_), static_cast<std::uint64_t>(rule),
                     in_scratch(scratch_.info), at_.status, at_.check, number_of(number_), number_of(at_.scan_step)});
  }
  void check_finite(DevicePointer values, std::int64_t count) const {
    kernels_.launch("check_finite", dtype(), blocks_for(count),
                    {values, number_of(count), at_.status, at_.check, number_of(number_), number_of(at_.scan_step)});
  }
  /// Of the vectors that name the signs of the columns.
  void find_signs(DevicePointer vectors, std::int64_t vector, std::int64_t component) const {
    kernels_.launch(
        "signs_of_vectors", dtype(), columns_,
        {in_scratch(scratch_.signs), vectors, number_of(vector), number_of(component), number_of(columns_)});
  }

  Gpu& gpu_;
  Solver& solver_;
  const MatrixKernels& kernels_;
  const LinearAlgebraKind kind_;
  const std::string& name_;
  const AlgebraShape& shape_;
  const std::int64_t rows_, columns_;
  const int m_, n_;
  const std::optional<Ordered> in_order_;  // the result, where the libraries can take it
  const Scratch scratch_;
  AlgebraAddresses at_;
  std::int64_t number_ = 0;  // of the matrix in the batch
  Placed matrix_, rhs_, out_;
};

}  // namespace

GpuAlgebra::GpuAlgebra(std::shared_ptr<Gpu> gpu, std::shared_ptr<Solver> solver, KernelBuilder& builder)
    : gpu_(std::move(gpu)), solver_(std::move(solver)), kernels_(gpu_, builder) {}

std::size_t GpuAlgebra::workspace_bytes(const AlgebraCall& call, const AlgebraShape& shape) {
  const std::scoped_lock lock(solver_->mutex());
  return visit_computed(call.definition.dtype, [&]<class T>(T) {
    const SolverCall<T> planned(*gpu_, *solver_, kernels_, call, shape);
    work_elements_[&call] = planned.work_elements();
    return planned.workspace_bytes();
  });
}

void GpuAlgebra::enqueue(const AlgebraCall& call, const AlgebraShape& shape, const AlgebraAddresses& addresses) {
  const std::scoped_lock lock(solver_->mutex());
  visit_computed(call.definition.dtype, [&]<class T>(T) {
    SolverCall<T>(*gpu_, *solver_, kernels_, call, shape, work_elements_.at(&call)).run(addresses);
  });
}

}  // namespace moxie::cuda
