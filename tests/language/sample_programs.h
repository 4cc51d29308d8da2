#pragma once
// Programs in .mox text that together use every feature of the language; all of them pass verify().
#include <string_view>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

inline const std::vector<std::string_view> kSamplePrograms = {
    // parametric GPN, response moments
    R"(dim S dynamic, N, R = 14
index s:S, n:N, r:R, t:R
input  mu[S,N], var[S,N] >= 0, V[R,N], U[R,N], noise[R,N], lambda[N] > 0, sigma[N]
let    K[n,r,t]: f64 = exp(-(V[r,n]-V[t,n])^2 / (2*lambda[n]^2)) + where(r==t, noise[r,n], 0)
let    kappa[n,r,t] = inverse[r,t](K[n,r,t])
let    beta[r,n]    = sum[t](kappa[n,r,t]*U[t,n])
let    d[s,n]       = lambda[n]^2 + var[s,n]
let    psi[s,r,n]   = sqrt(lambda[n]^2/d[s,n]) * exp(-(mu[s,n]-V[r,n])^2/(2*d[s,n]))
output mean[s,n]    = sum[r](psi[s,r,n]*beta[r,n])
output variance[s,n] = 1 - sum[r,t]((kappa[n,r,t] - beta[r,n]*beta[t,n]) * psi[s,r,n] * psi[s,t,n]) - mean[s,n]^2 + sigma[n]^2
)",
    // scalars, dtypes, outputs marked later, a statement over several lines
    R"(dtype f64
dim S
index s:S
input x[S]: f32, w, b: f32 >= 0
let y[s]: f32 = x[s]*w + b   # a comment
let loss = sum[s](
  y[s]^2   # squared
)/S
output y
output loss
)",
    // triangular storage, ranges of every form
    R"(dim N, M
index r:N, t:N, k in 0..3, j in 1..N-1
input x[2*N+3], y[N,N]
let upper[r, t in r..N] = y[r,t]
let lower[r, q in 0..r+1 of N] = y[r,q]
let a[r] = sum[t in r..N](upper[r,t]) + sum[t in 0..r+1](lower[r,t])
let b[r] = sum[i in max(0, r-2)..min(N, r+3, M)](y[r,i] + i)
let c[r] = sum[i in ceil((r-2)/3)..floor(r/2)+1](where(i >= 0 and i < N, y[r,i], 0))
let e[p in 0..N] = sum[k](x[2*p+k]) + sum[j](x[j-1])
let place[r] = argmax[t](y[r,t]) + argmin[i in r..N](argmax[t](y[i,t]), argmin[j](x[j-1], N*i+j))
output o = sum[r,t in r..N, k](upper[r,t]*k) + prod[r](a[r]) + max[r](b[r]) - min[r](c[r]) + logsumexp[r](e[r])
)",
    // linear algebra
    R"(dim B, N
index b:B, r:N, t:N, u:N
input A[B,N,N], v[B,N]
let C[b,r,t] = sum[u](A[b,r,u]*A[b,t,u]) + where(r == t, 1, 0)
let L[b,r,t] = cholesky[r,t](C[b,r,t])
let I[b,r,t] = inverse[r,t](C[b,r,t])
let D[b,r] = inverse[t,u](C[b,t,u])[r,r]
let G[b,r,t] = inverse[i1 in 0..N, i2 in 0..N](C[b,i1,i2]*A[b,r,t])[t,r]
let l[b] = logdet[r,t](C[b,r,t])
let x[b,t] = solve[r,t](C[b,r,t], v[b,r])
let y[b,t] = tri_solve[r,t](L[b,r,t], x[b,r])
let z[b,r] = tri_solve_transposed[t,r](L[b,t,r], y[b,t]) + solve[t,u](C[b,t,u], v[b,t])[r]
output total[b] = l[b] + sum[t](z[b,t]) + sum[t](I[b,0,t]*D[b,t]*G[b,t,0])
)",
    // operators, functions, conditions, numbers
    R"(dim N = 6
index i:N, j:N
input x[N], y[N]
let a[i] = x[i] - y[i] - 1e-3*x[i] + -2 - (x[i] - y[i]) - -x[i]
let b[i] = x[i]*y[i]/2/x[i]*3*(-2)*(x[i]/y[i]) + x[i]/(y[i]*2)
let c[i] = 2^x[i]^y[i] + (2^x[i])^y[i] + (-2)^2 + -2^2 + x[i]^(-2) + -(2) + -(x[i]*2) + x[i]^-y[i]
let d[i] = where(i != 0 and (x[i] < 0 or not y[i] >= 1) or i == 3 and x[i] <= 2, 1/N, i/N) + i*2 + (2*i-3)*x[i] - (i)
let e[i] = min(x[i], y[i]) + max(x[i], 0, y[i]) + log_normal_cdf(-x[i]) + f64(x[i]) + f32(y[i]) + pow(x[i], 2) + i^2
let f[i] = sum[j](where(i == j, 1, 0)*2*(j)) + (i) + 1 + 2*(i) + -(i) + i*i + 3*N + N + 1.5e300 + .25 + inf - -inf
output g[i] = a[i] + b[i] + c[i] + d[i] + e[i] + randn(3) + randu(4)[2*i+1, 0] + randn(5)[] + where(not (x[i] > 0 and i < 3), 1, 2)
)",
    // domains
    R"(dim T dynamic, N
index t:T, n:N
input x[T,N] >= 0, h0[N] < 1e-3, w: f64 > -0.5
let v[t,n] >= 0 = x[t,n]^2
output u: f64 > 1e-30 = exp(w)
scan t {
  recompute p[t,n] < 0.001 = where(t == 0, h0[n], h[t-1,n])
  output h[t,n] > -1 = tanh(p[t,n])
}
)",
    // names with dots, no axes, matrix product, shifted reads behind guards
    R"(dim S dynamic = 8, N
index s:S, n:N, m:N
input x[S,N], cot.y[S,N], W[N,N]
let h[s,n] = sum[m](x[s,m]*W[m,n])
let shifted[s,n] = where(s == 0, 0, h[s-1,n]) + where(s+1 < S, h[s+1,n], 0) + h[S-1-s,n]
output grad.x[s,n] = sum[m](cot.y[s,m]*W[n,m]) + shifted[s,n]
output count = sum[s,n](1)
)",
    // a model: parameters and states with their starts, predictions, a loss
    R"(dim S dynamic, I, H = 3
index s:S, i:I, h:H
input x[S,I]
parameter W[H,I] init glorot, b[H]: f64 init constant(-0.5), u[H] init normal(0.1), c init normal(1, 0.5)
input target[S]
parameter V[H,I] init he, g[H] init values(1, -2, 1e-3), k[H] init linspace(-2, 2), q init ones
state average[H] init zeros, count init uniform(0, 1)
let z[s,h] = tanh(sum[i](W[h,i]*V[h,i]*x[s,i]) + b[h])*g[h] - average[h] - k[h]
predict mean[s] = sum[h](u[h]*z[s,h]) + c*q
let unused = 0
output extra[s] = mean[s] + 1
loss l = sum[s]((target[s] - mean[s])^2)/S
next average[h] = 0.9*average[h] + 0.1*sum[s](z[s,h])/S
next count = count + 1
)",
};

/// Printing keeps everything but comments and lines.
inline Program without_lines(Program program) {
  for (Definition& definition : program.definitions) definition.line = 0;
  return program;
}

}  // namespace moxie
