// Elements that only ranges by data read, as scores of attention over ragged sets.
#include "compiler/diff/ranged_elements.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;

namespace {

/// One query for each ragged set of packed keys; empty sets give zero.
constexpr const char* kAttention = R"(
dim B, N, C = 4
index b:B, n:N, c:C
input q[B,C], k[N,C], v[N,C], start[B+1]: i32 >= 0
let s[b,n] = sum[c](q[b,c]*k[n,c])
let top[b] = max[n in start[b]..start[b+1]](s[b,n])
let den[b] = sum[n in start[b]..start[b+1]](exp(s[b,n] - top[b]))
output o[b,c] = where(start[b+1] > start[b], sum[n in start[b]..start[b+1]](exp(s[b,n] - top[b])*v[n,c])/den[b], 0)
)";

const DimValues kDims = {{"B", 5}, {"N", 40}, {"C", 4}};

TensorValues inputs_of(const Program& program) {
  TensorValues inputs = test::wave_inputs(program, kDims);
  inputs["start"] = {0, 7, 7, 20, 39, 40};
  return inputs;
}

bool has(const Program& program, const std::string& name) { return program.find_definition(name) != nullptr; }

/// Whether some definition has an element for each pair of a set and a key.
bool stores_pairs(const Program& program) {
  return std::ranges::any_of(program.definitions, [](const Definition& definition) {
    const auto runs_over = [&](const char* dim) {
      return std::ranges::any_of(definition.axes,
                                 [&](const AxisDecl& axis) { return axis.extent == Affine(Symbol::dim(dim)); });
    };
    return runs_over("B") && runs_over("N");
  });
}

}  // namespace

TEST_CASE("elements that ranges by data read are computed there") {
  const Program program = parse(kAttention);
  const Program computed = compute_ranged_elements(program);
  CHECK(!has(computed, "s"));
  CHECK(has(computed, "top"));
  for (const char* dynamic : {"dim B", "dim B dynamic"}) {
    std::string text = kAttention;
    text.replace(text.find("dim B, N"), 8,
                 std::string(dynamic) + (dynamic == std::string("dim B") ? ", N" : ", N dynamic"));
    const Program gradient = differentiate(parse(text), {"o"}, {"q", "k", "v"});
    CHECK_MESSAGE(!stores_pairs(optimise(gradient)), print(optimise(gradient)));
  }
}

TEST_CASE("sums over the rows in whose ranges an element lies take a step for each term with any dims") {
  const Program gradient = differentiate(parse(R"(
    dim B dynamic, N dynamic, H dynamic, C dynamic
    index b:B, n:N, h:H, c:C
    input q[B,H,C], k[N,H,C], start[B+1]: i32 >= 0
    let s[b,h,n] = sum[c](q[b,h,c]*k[n,h,c])
    let top[b,h] = max[n in start[b]..start[b+1]](s[b,h,n])
    output o[b,h] = sum[n in start[b]..start[b+1]](exp(s[b,h,n] - top[b,h]))
  )"),
                                         {"o"}, {"k"});
  const Program program = optimise(gradient);
  CHECK_MESSAGE(program.find_definition("grad.k")->body->height == 0, print(program));
}

TEST_CASE("elements that others read too, that have promises, or that strict programs compare, stay") {
  const auto stays = [](const std::string& text) { return has(compute_ranged_elements(parse(text)), "s"); };
  const std::string head = "dim B, N\nindex b:B, n:N\ninput q[B], k[N], start[B+1]: i32 >= 0\n";
  const std::string sum = "output o[b] = sum[n in start[b]..start[b+1]](exp(s[b,n]))\n";
  CHECK(!stays(head + "let s[b,n] = q[b]*k[n]\n" + sum));
  CHECK(stays(head + "let s[b,n] = q[b]*k[n]\n" + sum + "output first[b] = s[b,0]\n"));
  CHECK(stays(head + "let s[b,n] >= 0 = abs(q[b]*k[n])\n" + sum));
  const std::string most =
      "let s[b,n] = q[b]*k[n]\nlet top[b] = max[n in start[b]..start[b+1]](s[b,n])\n"
      "output o[b] = sum[n in start[b]..start[b+1]](where(s[b,n] == top[b], 1, 0))\n";
  CHECK(stays(head + most));
  CHECK(!stays("precision fast\n" + head + most));
  // As many as there are keys.
  CHECK(stays(head + "let s[n] = exp(k[n])\noutput o[b] = sum[n in start[b]..start[b+1]](q[b]*s[n])\n"));
  // Most of a row of padded sequences.
  CHECK(stays(head + "let s[b,n] = q[b]*k[n]\noutput o[b] = sum[n in 0..start[b]](exp(s[b,n]))\n"));
}

TEST_CASE("attention over ragged sets has the evaluator's values and gradients, on every device") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Program program = differentiate(with_dtype(parse(kAttention), dtype), {"o"}, {"q", "k", "v"}, true);
    const TensorValues inputs = inputs_of(program);
    const TensorValues expected = evaluate(program, kDims, inputs);
    const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      for (const auto& [name, values] : test::run_on(device, program, kDims, inputs)) {
        CAPTURE(name);
        REQUIRE(values.size() == expected.at(name).size());
        for (std::size_t k = 0; k < values.size(); ++k)
          CHECK(values[k] == doctest::Approx(expected.at(name)[k]).epsilon(tolerance).scale(1));
      }
    }
  }
}
