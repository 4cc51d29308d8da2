#include "compiler/loop/lower_lu.h"

#include "compiler/expression/algebra_form.h"
#include "compiler/loop/algebra_writer.h"

namespace moxie {
namespace {

/// An element of a scratch array.
struct Element {
  ArrayId array;
  std::vector<Affine> at;
};

/// Lanes hold matrices with pivots in other rows, so that rows are exchanged by choosing among all rows: n^3 selections
/// beside the 2/3 n^3 operations of the elimination, and no subscript that depends on values.
class LuWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

  ArrayId run(const std::vector<LoopIndex>& batch) {
    const ArrayId a = matrix("matrix"), swaps = vector("swaps");
    load_matrix(a);
    factor(a, swaps, batch);
    switch (root_.body->algebra) {
      case LinearAlgebraKind::LuSolve: {
        const ArrayId x = load_vector();
        solve(a, swaps, [&](const Affine& i) { return Element{x, {i}}; });
        return x;
      }
      case LinearAlgebraKind::LuSolveTransposed: {
        const ArrayId x = load_vector();
        solve_transposed(a, swaps, x);
        return x;
      }
      case LinearAlgebraKind::LuInverse:
        return inverse(a, swaps);
      case LinearAlgebraKind::Determinant:
        return product(a, swaps);
      case LinearAlgebraKind::LogAbsDeterminant:
        return log_product(a);
      default:
        throw InternalError("linear algebra that takes no LU factors");
    }
  }

 private:
  ValueId get(const Element& e) { return load(e.array, e.at); }
  void put(const Element& e, ValueId value) { store(e.array, e.at, value); }

  void factor(ArrayId a, ArrayId swaps, const std::vector<LoopIndex>& batch) {
    const bool checks = !takes_singular(root_.body->algebra);
    const std::uint32_t check = checks ? declare_check(batch) : 0;
    loop(0, size_,
         [&](Index j) {
           const ValueId row = find_pivot(a, swaps, j);
           parallel_loop(0, size_,
                         [&](Index c) { exchange(j, row, [&](const Affine& i) { return Element{a, {i, c}}; }); });
           const ValueId pivot = load(a, {j, j});
           if (checks) check_value(check, batch, j, binary(">", nest_.emit_call("abs", {pivot}), number(0)), pivot);
           const ValueId reciprocal = choose(binary("==", pivot, number(0)), number(0), binary("/", number(1), pivot));
           parallel_loop(Affine(j) + Affine(1), size_, [&](Index i) {
             const ValueId multiple = binary("*", load(a, {i, j}), reciprocal);
             store(a, {i, j}, multiple);
             loop(Affine(j) + Affine(1), size_,
                  [&](Index c) { store(a, {i, c}, minus(load(a, {i, c}), binary("*", multiple, load(a, {j, c})))); });
           });
         },
         {.comment = cited_ + "elimination with row exchanges, column by column"});
  }

  /// The row of the largest element of column j from the diagonal on, kept in `swaps`.
  ValueId find_pivot(ArrayId a, ArrayId swaps, Index j) {
    const VarId best = variable(nest_.emit_call("abs", {load(a, {j, j})}));
    const VarId row = variable(position(j));
    loop(Affine(j) + Affine(1), size_, [&](Index i) {
      const ValueId size = nest_.emit_call("abs", {load(a, {i, j})});
      const ValueId held = read(best);
      const ValueId larger = binary(">", size, held);
      const ValueId chosen = choose(larger, position(i), read(row));
      set(best, choose(larger, size, held));
      set(row, chosen);
    });
    const ValueId chosen = read(row);
    store(swaps, {j}, chosen);
    return chosen;
  }

  /// Exchanges elements j and `row`, which is not before j.
  template <class At>
  void exchange(const Affine& j, ValueId row, const At& at) {
    const ValueId first = get(at(j));
    const ValueId chosen =
        sum(j, size_, [&](Index i) { return choose(binary("==", position(i), row), get(at(i)), number(0)); });
    loop(j + Affine(1), size_, [&](Index i) { put(at(i), choose(binary("==", position(i), row), first, get(at(i)))); });
    put(at(j), chosen);
  }

  template <class At>
  void solve(ArrayId a, ArrayId swaps, const At& x) {
    loop(0, size_, [&](Index j) { exchange(j, load(swaps, {j}), x); });
    loop(0, size_,
         [&](Index i) {
           const ValueId dot = sum(0, i, [&](Index k) { return binary("*", load(a, {i, k}), get(x(k))); });
           put(x(i), minus(get(x(i)), dot));
         },
         {.comment = cited_ + "forward substitution"});
    loop_down(
        [&](const Affine& i) {
          const ValueId dot =
              sum(i + Affine(1), size_, [&](Index k) { return binary("*", load(a, {i, k}), get(x(k))); });
          put(x(i), binary("/", minus(get(x(i)), dot), load(a, {i, i})));
        },
        cited_ + "backward substitution");
  }

  void solve_transposed(ArrayId a, ArrayId swaps, ArrayId x) {
    loop(0, size_,
         [&](Index i) {
           const ValueId dot = sum(0, i, [&](Index k) { return binary("*", load(a, {k, i}), load(x, {k})); });
           store(x, {i}, binary("/", minus(load(x, {i}), dot), load(a, {i, i})));
         },
         {.comment = cited_ + "forward substitution"});
    loop_down(
        [&](const Affine& i) {
          const ValueId dot =
              sum(i + Affine(1), size_, [&](Index k) { return binary("*", load(a, {k, i}), load(x, {k})); });
          store(x, {i}, minus(load(x, {i}), dot));
        },
        cited_ + "backward substitution");
    loop_down([&](const Affine& j) { exchange(j, load(swaps, {j}), [&](const Affine& i) { return Element{x, {i}}; }); },
              cited_ + "the rows' own order");
  }

  ArrayId inverse(ArrayId a, ArrayId swaps) {
    const ArrayId x = matrix("inverse");
    parallel_loop(
        0, size_,
        [&](Index c) {
          loop(0, size_, [&](Index i) {
            store(x, {i, c}, choose(binary("==", position(i), position(c)), number(1), number(0)));
          });
          solve(a, swaps, [&](const Affine& i) { return Element{x, {i, c}}; });
        },
        cited_ + "the inverse, column by column");
    return x;
  }

  /// Every exchange of two rows changes the sign.
  ArrayId product(ArrayId a, ArrayId swaps) {
    const ArrayId result = nest_.new_array("determinant", type_, {1}, varying_);
    const VarId var = variable(number(1));
    loop(0, size_, [&](Index j) {
      const ValueId stays = binary("==", load(swaps, {j}), position(j));
      const ValueId pivot = load(a, {j, j});
      const ValueId factor = choose(stays, pivot, nest_.emit_call("neg", {pivot}));
      set(var, binary("*", read(var), factor));
    });
    store(result, {Affine(0)}, read(var));
    return result;
  }

  ArrayId log_product(ArrayId a) {
    const ArrayId result = nest_.new_array("logarithm", type_, {1}, varying_);
    const ValueId logarithm =
        sum(0, size_, [&](Index j) { return nest_.emit_call("log", {nest_.emit_call("abs", {load(a, {j, j})})}); });
    store(result, {Affine(0)}, logarithm);
    return result;
  }
};

}  // namespace

ArrayId lower_lu(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                 const std::vector<LoopIndex>& batch) {
  return LuWriter(nest, program, root, varying).run(batch);
}

}  // namespace moxie
