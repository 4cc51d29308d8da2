#pragma once
// AlgebraWriter: loops over scratch matrices, of which the algorithms of linear algebra are written.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/expression/algebra_form.h"
#include "compiler/fuse/shared_factor.h"
#include "compiler/loop/lower.h"
#include "compiler/loop/nest_builder.h"
#include "compiler/support/error.h"

namespace moxie {

/// What the algorithms have in common. Indices are the symbols of open loops.
class AlgebraWriter {
 public:
  AlgebraWriter(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying)
      : nest_(nest),
        program_(program),
        root_(root),
        cited_(cite(root.definition) + ": "),
        type_(value_type(root.definition.dtype)),
        varying_(varying),
        size_(root.body->size.columns),
        rows_(root.body->size.rows) {
    const Affine more = rows_ - size_;
    if (more.is_constant() && more.constant() < 0)
      throw ShapeError(root.definition.name + ": " + wrong_shape(root.body->algebra, print(rows_), print(size_)));
  }

 protected:
  using Index = Symbol;

  ArrayId tall(const char* name) { return nest_.new_array(name, type_, {rows_, size_}, varying_); }
  ArrayId matrix(const char* name) { return nest_.new_array(name, type_, {size_, size_}, varying_); }
  ArrayId vector(const char* name) { return nest_.new_array(name, type_, {size_}, varying_); }
  ValueId number(double value) { return nest_.emit(constant(value), type_); }
  ValueId load(ArrayId array, const std::vector<Affine>& subscripts) {
    return nest_.emit_operation(op::LoadArray{array, resolve(subscripts)}, type_, varying_);
  }
  void store(ArrayId array, const std::vector<Affine>& subscripts, ValueId value) {
    nest_.append(stmt::StoreArray{array, resolve(subscripts), value});
  }
  ValueId binary(const char* f, ValueId a, ValueId b) { return nest_.emit_call(f, {a, b}); }
  ValueId minus(ValueId a, ValueId b) { return binary("+", a, nest_.emit_call("neg", {b})); }

  std::vector<Affine> resolve(const std::vector<Affine>& subscripts) const {
    std::vector<Affine> result;
    for (const Affine& subscript : subscripts) result.push_back(nest_.resolve(subscript));
    return result;
  }

  template <class Body>
  void loop(const Range& range, const Body& body, LoopTraits traits = {}) {
    const Symbol index = Symbol::fresh();
    nest_.open_loop(index, range, {}, std::move(traits));
    body(index);
    nest_.close_loop();
  }
  template <class Body>
  void loop(const Affine& first, const Affine& last, const Body& body, LoopTraits traits = {}) {
    loop(Range::half_open(first, last), body, std::move(traits));
  }

  template <class Body>
  void parallel_loop(const Range& range, const Body& body, const std::string& comment = {}) {
    loop(range, body, {.parallel = true, .comment = comment});
  }
  template <class Body>
  void parallel_loop(const Affine& first, const Affine& last, const Body& body, const std::string& comment = {}) {
    loop(first, last, body, {.parallel = true, .comment = comment});
  }

  /// From size-1 down to 0: the loop runs upwards and the body sees the mirrored index.
  template <class Body>
  void loop_down(const Body& body, const std::string& comment) {
    loop(0, size_, [&](Index up) { body(size_ - Affine(1) - Affine(up)); }, {.comment = comment});
  }

  /// sum over k in first..last of term(k)
  template <class Term>
  ValueId sum(const Affine& first, const Affine& last, const Term& term) {
    const VarId var = nest_.new_var(type_, varying_);
    nest_.append(stmt::SetVar{var, number(0)});
    loop(first, last, [&](Index k) {
      const ValueId held = nest_.emit_operation(op::ReadVar{var}, type_, varying_);
      nest_.append(stmt::SetVar{var, binary("+", held, term(k))});
    });
    return nest_.emit_operation(op::ReadVar{var}, type_, varying_);
  }

  /// All elements of the matrix.
  void load_matrix(ArrayId a) {
    const OpenedLinearAlgebra opened = open_algebra(root_.body);
    nest_.open_loop(opened.row, Range::extent(rows_), {}, {.parallel = true, .comment = cited_ + "the matrix"});
    nest_.open_loop(opened.col, Range::extent(size_), {}, {.parallel = true});
    store(a, {opened.row, opened.col}, nest_.emit(nest_.guarded(opened.matrix), type_));
    nest_.close_loop();
    nest_.close_loop();
  }

  /// Whether the matrix may turn out to be wider than tall, which is known when dims are.
  bool may_be_wide() const { return !(rows_ - size_).is_constant(); }
  void check_shape() {
    if (!may_be_wide()) return;
    const auto check = static_cast<std::uint32_t>(program_.checks.size());
    program_.checks.push_back(
        {root_.definition.name + ": " + wrong_shape(root_.body->algebra, print(rows_), print(size_)), {}});
    const ValueId rows = position(rows_);
    nest_.append(stmt::Check{nest_.emit_call("not", {binary(">=", rows, position(size_))}), check, {}, rows});
  }

  ValueId position(const Affine& i) { return nest_.emit(index_value(i), type_); }
  ValueId choose(ValueId condition, ValueId a, ValueId b) { return nest_.emit_call("where", {condition, a, b}); }
  ValueId read(VarId var) { return nest_.emit_operation(op::ReadVar{var}, type_, varying_); }
  void set(VarId var, ValueId value) { nest_.append(stmt::SetVar{var, value}); }
  VarId variable(ValueId first) {
    const VarId var = nest_.new_var(type_, varying_);
    set(var, first);
    return var;
  }

  ArrayId load_vector() {
    const OpenedLinearAlgebra opened = open_algebra(root_.body);
    const ArrayId x = vector("vector");
    nest_.open_loop(opened.row, Range::extent(size_), {},
                    {.parallel = true, .comment = cited_ + "the right-hand side"});
    store(x, {opened.row}, nest_.emit(nest_.guarded(opened.rhs), type_));
    nest_.close_loop();
    return x;
  }

  /// A check of the factors, which names the sample, and the pivot where that is known.
  std::uint32_t declare_check(const std::vector<LoopIndex>& batch) {
    const FactorisationFailure failure = failure_of(factorisation_of(root_));
    CheckDecl check{root_.definition.name + ": " + failure.what, {}, failure.advice};
    for (const LoopIndex& loop : batch) {
      for (std::size_t k = 0; k < root_.subscripts.size(); ++k) {
        if (root_.subscripts[k] == Affine(loop.symbol)) check.coordinate_names.push_back(root_.definition.axes[k].name);
      }
    }
    if (failure.names_pivot) check.coordinate_names.emplace_back("pivot");
    program_.checks.push_back(std::move(check));
    return static_cast<std::uint32_t>(program_.checks.size() - 1);
  }

  /// Fails where `value`, of a pivot if the failure names one, is not good.
  void check_value(std::uint32_t check, const std::vector<LoopIndex>& batch, const std::optional<Index>& pivot,
                   ValueId good, ValueId value) {
    std::vector<Affine> coordinates;
    for (const LoopIndex& loop : batch) coordinates.push_back(nest_.resolve(loop.symbol));
    if (pivot) coordinates.push_back(nest_.resolve(*pivot));
    nest_.append(stmt::Check{nest_.emit_call("not", {good}), check, std::move(coordinates), value});
  }

  NestBuilder& nest_;
  LoopProgram& program_;
  const KernelRoot& root_;
  std::string cited_;
  ValueType type_;
  bool varying_;
  Affine size_, rows_;  // columns, and rows, which are as many unless the operation takes a tall matrix
};

}  // namespace moxie
