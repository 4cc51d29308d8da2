// Products of rows that values select, and products that go where values say, on every device: against the evaluator.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

/// `count` integers that a step apart take turns below `extent`.
std::vector<double> turns(std::size_t count, std::size_t step, std::size_t extent) {
  std::vector<double> values;
  for (std::size_t k = 0; k < count; ++k) values.push_back(static_cast<double>(k * step % extent));
  return values;
}

/// Whether some term that goes where a value says has a sum in it.
bool sums_in_terms(const std::vector<Definition>& definitions) {
  bool found = false;
  for (const Definition& definition : definitions)
    visit(definition.body, [&](const Expr& e) { found |= is_call(e, "where") && e->args[1]->height > 0; });
  return found;
}

/// Whether some sum reads by value.
bool gathers_in_sums(const std::vector<Definition>& definitions) {
  return std::ranges::any_of(definitions, [](const Definition& d) { return d.body->height > 0 && d.body->gathers; });
}

}  // namespace

TEST_CASE("large products of rows by value are products of tensors, and go where values say as sums") {
  const std::string head =
      "dim N, Q, B, D, P\nindex n:N, q:Q, b:B, i:D, p:P\n"
      "input W[P,D,N], H[Q,D], a[B,N], r[B]: i32 >= 0, h[B]: i32 >= 0\n";
  const DimValues dims = {{"N", 80}, {"Q", 7}, {"B", 64}, {"D", 24}, {"P", 18}};
  const std::string scattered = "output g[q,p] = sum[b,n,i](where(r[b] == q, W[p,i,n]*H[h[b],i]*a[b,n], 0))\n";
  const std::string multiplied =
      "output y[b,p,n] = sum[i](W[p,i,n]*H[h[b],i])\n"
      "output z[n,q] = sum[i,b](H[h[b],i]*H[q,i]*a[b,n])\n";
  const auto left = [&](const std::string& text, const std::vector<std::string>& without, std::int64_t rows = 7) {
    DimValues extents = dims;
    extents["Q"] = rows;
    return optimise(specialise(parse(head + text), extents), {}, without).definitions;
  };
  CHECK(sums_in_terms(left(scattered, {"sum-before-scatters"})));
  CHECK_FALSE(sums_in_terms(left(scattered, {})));
  const std::string product = "output y[b,p,n] = sum[i](W[p,i,n]*H[h[b],i])\n";
  CHECK(gathers_in_sums(left(product, {"store-gathers"}, 500)));  // more than are selected
  CHECK_FALSE(gathers_in_sums(left(product, {}, 500)));

  const Program program = parse(head + scattered + multiplied);
  TensorValues inputs = test::wave_inputs(program, dims);
  inputs.at("r") = turns(64, 5, 9);  // 7 and 8 are no elements: these terms go nowhere
  inputs.at("h") = turns(64, 3, 7);
  test::check_values_on_devices(program, dims, inputs);
  for (std::size_t b = 0; b < 64; ++b) {
    if (inputs.at("r")[b] >= 7) inputs.at("h")[b] = 1e9;  // which nobody reads then
  }
  test::check_values_on_devices(parse(head + scattered), dims, inputs);
}

TEST_CASE("rows by value are stored only where no condition around their product is needed to read them") {
  const std::string head = R"(
    dim B, C, N, D, Q
    index b:B, c:C, n:N, i:D, q:Q
    input H[Q,D], W[D,N], h[B]: i32 >= 0, valid[B]: i32 >= 0
    output y[b,n] = where(valid[b] == 1, sum[i](H[h[b],i]*W[i,n]), 0)
  )";
  const std::string others = R"(
    output z[b,c,n] = sum[i](where(c >= b, H[h[b],i], 0)*W[i,n])
    output g[q,n] = where(n >= 1, sum[b,i](where(h[b] == q, H[q,i]*W[i,n-1]*valid[b], 0)), 0)
  )";
  const DimValues dims = {{"B", 64}, {"C", 3}, {"N", 70}, {"D", 480}, {"Q", 7}};
  TensorValues inputs = test::wave_inputs(parse(head), dims);
  inputs.at("valid") = turns(64, 1, 2);
  inputs.at("h") = turns(64, 3, 7);
  test::check_values_on_devices(parse(head + others), dims, inputs);
  for (std::size_t b = 0; b < 64; b += 2) inputs.at("h")[b] = 1e9;  // where nothing is valid
  test::check_values_on_devices(parse(head), dims, inputs);
}

TEST_CASE("a row that a value selects among few is read, and not looked for") {
  const Program program = parse(
      "dim E, R, D, O\nindex e:E, r:R, d:D, o:O\ninput x[E,D], c[R,D,O], rel[E]: i32 >= 0\n"
      "output m[e,o] = sum[d,r](where(rel[e] == r, x[e,d]*c[r,d,o], 0))\n");
  const DimValues dims = {{"E", 30}, {"R", 12}, {"D", 3}, {"O", 5}};
  const auto loops = [&](const std::vector<std::string>& without) {
    return optimise(specialise(program, dims), {}, without).definitions.back().body->height;
  };
  CHECK(loops({"solve-conditions"}) == 2);
  CHECK(loops({}) == 1);
  TensorValues inputs = test::wave_inputs(program, dims);
  inputs.at("rel") = turns(30, 5, 14);  // 12 and 13 are no rows
  test::check_values_on_devices(program, dims, inputs);
}
