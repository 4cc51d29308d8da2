// Axes that hold heads, patches or blocks one after the other: sums for each block, and what contractions read of one.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

/// How many definitions with an axis of blocks the passes make.
std::ptrdiff_t count_blocks(const Program& program) {
  return std::ranges::count_if(optimise(program).definitions, [](const Definition& definition) {
    return definition.name.find(".blocks") != std::string::npos;
  });
}

/// The formula and its gradients have their values, and definitions by blocks: so many, and at least so many.
void check_blocks(const std::string& text, const DimValues& dims, std::ptrdiff_t forward, std::ptrdiff_t backward) {
  CAPTURE(text);
  const Program program = specialise(parse(text), dims);
  CHECK(count_blocks(program) == forward);
  test::check_values_on_devices(program, dims);
  const Program gradients = differentiate(program, {"y"}, {"x"});
  CHECK(count_blocks(gradients) >= backward);
  test::check_values_on_devices(gradients, dims);
}

}  // namespace

TEST_CASE("a gradient by what is read in blocks is a contraction for every block") {
  const std::string kronecker =
      "dim A, B, C\ndim D = 16\nindex i:A, j:B, k:C, l:D\ninput P[A,C], Q[B,D], x[C*D]\n"
      "output y[i,j] = sum[k,l](P[i,k]*Q[j,l]*x[D*k+l])\n";
  check_blocks(kronecker, {{"A", 20}, {"B", 24}, {"C", 18}}, 0, 1);
  const std::string patches =
      "dim N, H, W\nindex n:N, i:H, j:W, u:8, v:8, p:8, q:8\ninput x[N,8*H,8*W], c[8,8]\n"
      "output y[n,i,j,u,v] = sum[p,q](c[u,p]*c[v,q]*x[n,8*i+p,8*j+q])\n";
  check_blocks(patches, {{"N", 2}, {"H", 3}, {"W", 5}}, 0, 1);
}

TEST_CASE("heads that lie along one axis get an axis of their own, and those of parts of it") {
  const std::string head = "dim B, T, H\ndim D = 16\nindex b:B, t:T, s:T, h:H, d:D, e:H*D\n";
  const DimValues dims = {{"B", 2}, {"T", 96}, {"H", 8}};
  check_blocks(head +
                   "input x[B,T,3*H*D]\n"
                   "let p[b,h,t,s in 0..t+1] = softmax[s](sum[d](x[b,t,D*h+d]*x[b,s,H*D+D*h+d])/4)\n"
                   "output y[b,t,h,d] = sum[s in 0..t+1](p[b,h,t,s]*x[b,s,2*H*D+D*h+d])\n",
               dims, 3, 3);
  check_blocks(head + "input x[B,T,H*D], p[B,H,T,T]\noutput y[b,t,e] = sum[s](p[b,e/D,t,s]*x[b,s,e])\n", dims, 2, 2);
}

TEST_CASE("short, ragged and overlapping blocks stay as they are written") {
  const std::string head = "dim T, N\nindex t:T, s:T, n:N\n";
  check_blocks(head + "input x[T,N], p[N,T,T]\noutput y[t,n] = sum[s](p[n/4,t,s]*x[s,n])\n", {{"T", 40}, {"N", 64}}, 0,
               0);
  check_blocks(head + "input x[T,N], p[N,T,T]\noutput y[t,n] = sum[s](p[n/16,t,s]*x[s,n])\n", {{"T", 40}, {"N", 70}}, 0,
               0);
  check_blocks(
      "dim N, K\nindex i:N, c:N, k:K\ninput x[N,16*N+K], w[N,K]\n"
      "output y[i,c] = sum[k](w[c,k]*x[c,16*i+k])\n",
      {{"N", 30}, {"K", 24}}, 0, 0);
}
