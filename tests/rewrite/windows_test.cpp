// What overlapping windows have in common is computed once: on every device the values are those of the formula.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

std::ptrdiff_t count_windows(const Program& program) {
  return std::ranges::count_if(optimise(program).definitions,
                               [](const Definition& definition) { return definition.name.ends_with(".window"); });
}

/// The formula, whose passes make that many tensors of what windows share, has its values, and so have its gradients.
void check_windows(const std::string& text, const DimValues& dims, std::ptrdiff_t windows) {
  CAPTURE(text);
  const Program program = specialise(parse(text), dims);
  CHECK(count_windows(program) == windows);
  test::check_values_on_devices(program, dims);
  test::check_values_on_devices(differentiate(program, {"y"}, {"x"}), dims);
}

}  // namespace

TEST_CASE("a function of an element is computed once, not in every window") {
  const DimValues dims = {{"N", 3000}, {"K", 5}};
  const std::string head = "dim N, K\nindex i:N, k:K\n";
  check_windows(head + "input x[N+K-1], w[K]\noutput y[i] = sum[k](w[k]*exp(x[i+k]))\n", dims, 1);
  check_windows(head + "input x[N+K-1], w[K]\noutput y[i] = sum[k](w[k]*exp(x[i-k+K-1]))\n", dims, 1);
  check_windows(head + "input x[N+2*K-2], w[K]\noutput y[i] = sum[k](w[k]*tanh(x[i+2*k]))\n", dims, 1);
  check_windows(head + "input x[N+K-1]\noutput y[i] = max[k](sin(x[i+k]))\n", dims, 1);
}

TEST_CASE("so are choices between neighbours at a boundary, in several dims") {
  const DimValues dims = {{"N", 70}, {"C", 3}};
  const std::string head = "dim N, C\nindex c:C, i:N, j:N, p in 0..3, q in 0..3\ninput x[C,N,N], w[C,3,3]\n";
  check_windows(head + "output y[i,j] = sum[c,p,q](w[c,p,q]*x[c,(i+p+N-1)%N,(j+q+N-1)%N])\n", dims, 1);
  check_windows(head + "output y[i,j] = sum[c,p,q](w[c,p,q]*x[c,clamp(i+p-1,0,N-1),clamp(j+q-1,0,N-1)])\n", dims, 1);
  check_windows(head +
                    "output y[i,j] = sum[c,p,q](w[c,p,q]*where(i+p >= 1 and i+p <= N and j+q >= 1 and j+q <= N, "
                    "x[c,i+p-1,j+q-1], 0))\n",
                dims, 1);
}

TEST_CASE("what differs between windows, is cheap, or little, stays where it is") {
  const DimValues dims = {{"N", 3000}, {"K", 5}};
  const std::string head = "dim N, K\nindex i:N, k:K\ninput x[N+K-1], w[K]\n";
  check_windows(head + "output y[i] = sum[k](exp(w[k]*x[i+k]))\n", dims, 0);
  check_windows(head + "output y[i] = sum[k](exp(x[i+k] - x[i]))\n", dims, 0);
  check_windows(head + "output y[i] = sum[k](w[k]*x[i+k])\n", dims, 0);
  check_windows(head + "output y[i] = sum[k](w[k]*exp(x[i+k]))\n", {{"N", 30}, {"K", 5}}, 0);
}

TEST_CASE("two windows may share a subscript") {
  const DimValues dims = {{"S", 250}, {"N", 3}};
  check_windows(
      "dim S, N\nindex i:S, j:S, n:N\ninput x[3*S,S+N]\n"
      "output y[i,j] = sum[n](where(2*i-j >= 0 and i+n >= 2, exp(x[2*i-j,i+n-2]), 0))\n",
      dims, 1);
}
