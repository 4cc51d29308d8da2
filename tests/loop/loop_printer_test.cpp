#include <doctest/doctest.h>

#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

TEST_CASE("a LoopProgram prints as comments, head, declarations and one statement a line") {
  CHECK(print(column_squares()) == R"(# y[n] = sum[r](x[r,n]^2)
kernel column_squares(N, %lo0, %hi0) {
  in  x: f32[3, N] stored by axes [1, 0] as [N, 3]
  out y: f32[N]
  var acc0: <f32>

  vector for n in %lo0..%hi0 {
    acc0 = 0
    for r in 0..3 {
      v1: <f32> = x[r, n]
      v2: <f32> = acc0
      v3: <f32> = v1 * v1
      v4: <f32> = v2 + v3
      acc0 = v4
    }
    v5: <f32> = acc0
    y[n] = v5
  }
}
)");
}

TEST_CASE("loops without a name, several bounds and divisors") {
  Builder b;
  b.program.name = "bounds";
  const Affine i = i0();
  const Range range{{{2, i - Affine(1)}, {1, 0}}, {{3, i * 2}, {1, 6}}};
  b.program.body = {loop(i0(), Range::extent(9), {loop(i1(), range, {})})};
  CHECK(print(b.program) == R"(kernel bounds() {
  for i0 in 0..9 {
    for i1 in max(ceil((i0 - 1)/2), 0)..min(floor((2*i0)/3) + 1, 7) {
    }
  }
}
)");
}

TEST_CASE("loops say how many iterations they take at once") {
  Builder b;
  b.program.name = "interleaved";
  stmt::For lanes = loop(i0(), Range::extent(9), {});
  lanes.vector = true;
  lanes.interleave = 4;
  b.program.body = {lanes};
  CHECK(print(b.program) == "kernel interleaved() {\n  vector for i0 in 0..9, 4 at once {\n  }\n}\n");
}

TEST_CASE("nested loops of one name are told apart, loops side by side keep it") {
  Builder b;
  b.program.name = "names";
  b.program.body = {loop(i0(), Range::extent(2), {loop(i1(), Range::extent(i0()), {}, "r")}, "r"),
                    loop(i0(), Range::extent(3), {}, "r")};
  CHECK(print(b.program) == R"(kernel names() {
  for r in 0..2 {
    for r_1 in 0..r {
    }
  }
  for r in 0..3 {
  }
}
)");
}

TEST_CASE("every operation and statement has a spelling") {
  Builder b;
  b.program.name = "all";
  b.program.arguments = {"%seed", "%step"};
  b.program.buffers = {input("x", {4}), output("y", {4})};
  b.program.arrays = {{"K", DType::f64, {2, 2}, true}};
  b.program.vars = {{ValueType::f64, true}};
  b.program.checks = {{"cholesky of K: not positive definite", {"i"}}};
  const Affine i = i0();
  Block body;
  const ValueId number = b.let(body, op::Number{i * 2 - Affine(3)});
  const ValueId bad = b.call(body, "<", {number, b.constant(body, 0.5)});
  const ValueId x = b.let(body, op::Load{0, {i}, bad});
  b.let(body, ValueType::f32, op::Convert{x});
  b.let(body, op::Random{RandomKind::Uniform, 7, {i, 1}});
  b.let(body, op::CombineLanes{ReduceKind::Sum, b.let(body, op::ReadVar{0})});
  body.push_back(stmt::StoreArray{0, {0, 1}, b.call(body, "exp", {x})});
  b.let(body, op::LoadArray{0, {0, 1}});
  body.push_back(stmt::Check{bad, 0, {i}, x});
  b.program.body = {loop(i0(), Range::extent(4), body, "i")};
  CHECK(print(b.program) == R"(kernel all(%seed, %step) {
  in  x: f64[4]
  out y: f64[4]
  scratch K: f64[2, 2] per lane
  var acc0: <f64>
  check 0 [i]: "cholesky of K: not positive definite"

  for i in 0..4 {
    v0: f64 = number(2*i - 3)
    v2: truth = v0 < 0.5
    v3: f64 = x[i] if v2 else 0
    v4: f32 = f32(v3)
    v5: f64 = randu(stream 7 at [i, 1])
    v6: f64 = acc0
    v7: f64 = sum[lanes](v6)
    v8: f64 = exp(v3)
    K[0, 1] = v8
    v9: f64 = K[0, 1]
    check 0: fail if v2 at [i] with v3
  }
}
)");
}

TEST_CASE("printing never trusts an id") {
  LoopProgram p;
  p.name = "broken";
  p.values = {{ValueType::f32, false, op::Load{5, {i0()}, ValueId{8}}},
              {ValueType::f32, false, op::Call{nullptr, {9}}}};
  p.body = {stmt::Let{0}, stmt::Let{1}, stmt::Let{2}, stmt::SetVar{3, 4}, stmt::StoreArray{6, {}, 7}};
  CHECK(print(p) == R"(kernel broken() {
  v0: f32 = buffer5[bound0] if v8 else 0
  v1: f32 = no_function(v9)
  v2 = ?
  acc3 = v4
  array6[] = v7
}
)");
}
