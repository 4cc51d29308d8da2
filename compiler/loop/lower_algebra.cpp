#include "compiler/loop/lower_algebra.h"

#include <algorithm>
#include <iterator>

#include "compiler/fuse/shared_factor.h"
#include "compiler/loop/algebra_writer.h"
#include "compiler/loop/lower_eigen.h"
#include "compiler/loop/lower_lu.h"
#include "compiler/loop/lower_qr.h"
#include "compiler/loop/lower_sort.h"
#include "compiler/loop/lower_svd.h"

namespace moxie {
namespace {

/// Symmetric positive definite matrices and triangular factors.
class CholeskyWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

  /// The Cholesky factor of the matrix, or the triangle that is one already.
  ArrayId run_factor(const std::vector<LoopIndex>& batch) {
    const ArrayId a = matrix("matrix");
    load_lower_triangle(a, open_algebra(root_.body));
    if (factorisation_of(root_) == Factorisation::Cholesky) factor(a, batch);
    return a;
  }

  /// The root's result from the factor, in a scratch array.
  ArrayId run_result(ArrayId a) {
    switch (root_.body->algebra) {
      case LinearAlgebraKind::Cholesky:
        clear_upper(a);
        return a;
      case LinearAlgebraKind::Inverse:
      case LinearAlgebraKind::CholeskyInverse:
        return inverse(a);
      case LinearAlgebraKind::LogDet:
        return log_determinant(a);
      case LinearAlgebraKind::Solve: {
        const ArrayId x = load_vector();
        substitute_forward(a, x), substitute_backward(a, x);
        return x;
      }
      case LinearAlgebraKind::TriSolve: {
        const ArrayId x = load_vector();
        substitute_forward(a, x);
        return x;
      }
      case LinearAlgebraKind::TriSolveTransposed: {
        const ArrayId x = load_vector();
        substitute_backward(a, x);
        return x;
      }
      default:
        throw InternalError("linear algebra that takes no Cholesky factor");
    }
  }

 private:
  void load_lower_triangle(ArrayId a, const OpenedLinearAlgebra& opened) {
    nest_.open_loop(opened.row, Range::extent(size_), {}, {.parallel = true, .comment = cited_ + "the matrix"});
    nest_.open_loop(opened.col, Range::half_open(0, Affine(opened.row) + Affine(1)), {}, {.parallel = true});
    store(a, {opened.row, opened.col}, nest_.emit(nest_.guarded(opened.matrix), type_));
    nest_.close_loop();
    nest_.close_loop();
  }

  /// Cholesky in place, column by column: a := L.
  void factor(ArrayId a, const std::vector<LoopIndex>& batch) {
    const std::uint32_t check = declare_check(batch);
    loop(0, size_,
         [&](Index j) {
           const auto row_product = [&](const Affine& i) {
             return sum(0, j, [&](Index k) { return binary("*", load(a, {i, k}), load(a, {j, k})); });
           };
           const ValueId pivot = minus(load(a, {j, j}), row_product(j));
           const ValueId good = binary(">", pivot, number(0));
           check_value(check, batch, j, good, pivot);
           const ValueId root = nest_.emit_call("sqrt", {pivot});
           const ValueId reciprocal = binary("/", number(1), root);
           store(a, {j, j}, root);
           parallel_loop(Affine(j) + Affine(1), size_, [&](Index i) {
             store(a, {i, j}, binary("*", minus(load(a, {i, j}), row_product(i)), reciprocal));
           });
         },
         {.comment = cited_ + "Cholesky factor, column by column"});
  }

  void clear_upper(ArrayId a) {
    parallel_loop(
        0, size_, [&](Index i) { loop(Affine(i) + Affine(1), size_, [&](Index j) { store(a, {i, j}, number(0)); }); },
        cited_ + "zeros above the diagonal");
  }

  /// L^-1 column by column, then (L^-1)^T L^-1, one triangle and its mirror.
  ArrayId inverse(ArrayId l) {
    const ArrayId m = matrix("factor_inverse");
    parallel_loop(
        0, size_,
        [&](Index j) {
          store(m, {j, j}, binary("/", number(1), load(l, {j, j})));
          loop(Affine(j) + Affine(1), size_, [&](Index i) {
            const ValueId dot = sum(j, i, [&](Index k) { return binary("*", load(l, {i, k}), load(m, {k, j})); });
            store(m, {i, j}, nest_.emit_call("neg", {binary("/", dot, load(l, {i, i}))}));
          });
        },
        cited_ + "the factor's inverse");
    const ArrayId x = matrix("inverse");
    parallel_loop(
        0, size_,
        [&](Index i) {
          loop(0, Affine(i) + Affine(1), [&](Index j) {
            const ValueId dot = sum(i, size_, [&](Index k) { return binary("*", load(m, {k, i}), load(m, {k, j})); });
            store(x, {i, j}, dot);
            store(x, {j, i}, dot);
          });
        },
        cited_ + "the inverse");
    return x;
  }

  ArrayId log_determinant(ArrayId l) {
    const ArrayId result = nest_.new_array("logdet", type_, {1}, varying_);
    const ValueId half = sum(0, size_, [&](Index j) { return nest_.emit_call("log", {load(l, {j, j})}); });
    store(result, {Affine(0)}, binary("*", number(2), half));
    return result;
  }

  void substitute_forward(ArrayId l, ArrayId x) {
    loop(0, size_,
         [&](Index i) {
           const ValueId dot = sum(0, i, [&](Index k) { return binary("*", load(l, {i, k}), load(x, {k})); });
           store(x, {i}, binary("/", minus(load(x, {i}), dot), load(l, {i, i})));
         },
         {.comment = cited_ + "forward substitution"});
  }

  void substitute_backward(ArrayId l, ArrayId x) {
    loop_down(
        [&](const Affine& i) {
          const ValueId dot =
              sum(i + Affine(1), size_, [&](Index k) { return binary("*", load(l, {k, i}), load(x, {k})); });
          store(x, {i}, binary("/", minus(load(x, {i}), dot), load(l, {i, i})));
        },
        cited_ + "backward substitution");
  }
};

/// Writes a root's result, element by element.
void store_result(NestBuilder& nest, const AlgebraResult& result, ArrayId array, bool varying) {
  const KernelRoot& root = *result.root;
  std::size_t open = 0;
  for (const LoopIndex& loop : root.locals) {
    if (!is_element_index(root, loop)) continue;
    nest.open_loop(loop.symbol, loop.range, loop.name,
                   {.parallel = true, .comment = open == 0 ? cite(root.definition) : ""});
    ++open;
  }
  std::vector<Affine> read;
  for (const Affine& subscript : root.body->subscripts) read.push_back(nest.resolve(subscript));
  if (read.empty()) read.emplace_back(0);
  const ValueId value =
      nest.emit_operation(op::LoadArray{array, std::move(read)}, value_type(root.definition.dtype), varying);
  std::vector<Affine> write;
  for (const Affine& subscript : root.subscripts) write.push_back(nest.resolve(subscript));
  nest.append(stmt::Store{result.output, std::move(write), value});
  for (; open > 0; --open) nest.close_loop();
}

bool is_of(const AlgebraResult& result, LinearAlgebraKind kind) { return result.root->body->algebra == kind; }

bool asks_for(const std::vector<AlgebraResult>& results, LinearAlgebraKind kind) {
  return std::ranges::any_of(results, [&](const AlgebraResult& result) { return is_of(result, kind); });
}

}  // namespace

void lower_algebra(NestBuilder& nest, LoopProgram& program, const std::vector<AlgebraResult>& results,
                   const std::optional<LoopIndex>& vector, const std::optional<LoopIndex>& sample) {
  const KernelRoot& first = *results.front().root;
  std::vector<LoopIndex> batch;
  if (vector) batch.push_back(*vector);
  if (sample) batch.push_back(*sample);
  std::ranges::copy_if(first.locals, std::back_inserter(batch),
                       [&](const LoopIndex& loop) { return !is_element_index(first, loop); });
  for (const LoopIndex& loop : batch)
    nest.open_loop(loop.symbol, loop.range, loop.name, {.vector = vector && loop.symbol == vector->symbol});

  const bool varying = vector.has_value();
  if (sorts_row(first.body->algebra)) {
    lower_sort(nest, program, results.front(), varying);
    for (std::size_t k = 0; k < batch.size(); ++k) nest.close_loop();
    return;
  }
  switch (factorisation_of(first)) {
    case Factorisation::Lu:
      store_result(nest, results.front(), lower_lu(nest, program, first, varying, batch), varying);
      break;
    case Factorisation::Eigen: {
      const EigenArrays eigen =
          lower_eigen(nest, program, first, varying, batch, asks_for(results, LinearAlgebraKind::Eigenvectors));
      for (const AlgebraResult& result : results)
        store_result(nest, result, is_of(result, LinearAlgebraKind::Eigenvalues) ? eigen.values : eigen.vectors,
                     varying);
      break;
    }
    case Factorisation::Qr: {
      const QrArrays qr = lower_qr(nest, program, first, varying, batch, asks_for(results, LinearAlgebraKind::QrQ));
      for (const AlgebraResult& result : results)
        store_result(nest, result, is_of(result, LinearAlgebraKind::QrQ) ? qr.q : qr.r, varying);
      break;
    }
    case Factorisation::Svd: {
      const SvdArrays svd = lower_svd(nest, program, first, varying, batch, asks_for(results, LinearAlgebraKind::Svd));
      for (const AlgebraResult& result : results)
        store_result(nest, result, is_of(result, LinearAlgebraKind::Svd) ? svd.vectors : svd.values, varying);
      break;
    }
    case Factorisation::None:
    case Factorisation::Cholesky: {
      const ArrayId factor = CholeskyWriter(nest, program, first, varying).run_factor(batch);
      for (const AlgebraResult& result : results)
        store_result(nest, result, CholeskyWriter(nest, program, *result.root, varying).run_result(factor), varying);
      break;
    }
  }
  for (std::size_t k = 0; k < batch.size(); ++k) nest.close_loop();
}

}  // namespace moxie
