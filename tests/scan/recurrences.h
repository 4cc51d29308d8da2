#pragma once
// Programs with scans; each has the dims T (dynamic), S (dynamic) and N, or some of them, and outputs that depend on
// every input.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/reference/evaluate.h"

namespace moxie::test {

/// T steps, S samples, and `units` of every other dim.
inline DimValues dims_of(const Program& program, std::int64_t steps, std::int64_t units, std::int64_t samples = 3) {
  DimValues dims;
  for (const DimDecl& dim : program.dims) dims[dim.name] = dim.name == "T" ? steps : dim.name == "S" ? samples : units;
  return dims;
}

inline std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

struct Recurrence {
  std::string_view name, text;
};

inline const std::vector<Recurrence> kRecurrences = {
    {"autoregressive", R"(dim T dynamic
index t:T
input a, h0, x[T]
scan t {
  output h[t] = a*where(t == 0, h0, h[t-1]) + x[t]
}
)"},
    {"two carries, one of them hidden", R"(dim T dynamic, N
index t:T, n:N
input p0[N], q0[N], w[N], x[T,N]
scan t {
  let before[t,n] = where(t > 0, p[t-1,n], p0[n])
  let p[t,n] = tanh(w[n]*before[t,n] + where(t > 0, q[t-1,n], q0[n]))
  let q[t,n] = sin(p[t,n]*x[t,n]) - before[t,n]
}
output y[t,n] = p[t,n]*exp(q[t,n])
)"},
    {"reduction over units", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input h0[S,N], W[N,N], b[N], x[T,S,N]
let U[n,k] = W[n,k]/N
scan t {
  let p[t,s,n] = where(t == 0, h0[s,n], h[t-1,s,n])
  let o[t,s,n] = sum[k](U[n,k]*p[t,s,k]) + b[n]
  let scaled[t,s,n] = o[t,s,n] / sqrt(1 + sum[k](p[t,s,k]^2)/N)
  let h[t,s,n] = tanh(scaled[t,s,n] + x[t,s,n])
  output total[t,s] = sum[n](h[t,s,n])
}
output last[s,n] = where(T >= 1, sum[t](where(t == T-1, h[t,s,n], 0)), 0)
)"},
    {"means and variances", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input h0[S,N], v0[S,N], W[N,N], V[N,N], x[T,S,N]
let inner[t,s,n] = sum[k](W[n,k]*x[t,s,k]^2)/N
scan t {
  let m[t,s,n] = where(t == 0, h0[s,n], h[t-1,s,n])
  let v[t,s,n] = where(t == 0, v0[s,n], w[t-1,s,n])
  let o[t,s,n] = sum[k](V[n,k]*(v[t,s,k] + m[t,s,k]^2) + W[n,k]^2*v[t,s,k])/N
  output h[t,s,n] = tanh(sum[k](W[n,k]*m[t,s,k])/N + inner[t,s,n])
  output w[t,s,n] = sin(o[t,s,n])*x[t,s,n]
}
)"},
    {"reduction over samples", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N
input m0[N], x[T,S,N]
scan t {
  output m[t,n] = where(t == 0, m0[n], m[t-1,n]/2) + sum[s](sin(x[t,s,n]*where(t == 0, m0[n], m[t-1,n])))
}
)"},
    {"backwards", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], a[N]
scan t backwards {
  output r[t,n] = x[t,n] + a[n]*where(t < T-1, sin(r[t+1,n])*r[t+1,n], 1)
}
)"},
    {"two steps back, maximum and log-sum-exp", R"(dim T dynamic, N
index t:T, n:N, k:N
input x[T,N], a[N], b[N]
scan t {
  let top[t] = max[n](where(t < 1, x[t,n], h[t-1,n]*x[t,n]))
  let far[t] = logsumexp[n](where(t < 2, a[n]*x[t,n], h[t-2,n]*b[n]))
  output h[t,n] = tanh(top[t]*a[n] + far[t]*x[t,n])
}
)"},
    {"parts that need no scan", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], h0[N], w[N]
scan t {
  let late[t,n] = where(t == 0, 0, early[t-1,n])
  let early[t,n] = exp(x[t,n]*w[n])
  let h[t,n] = sin(where(t == 0, h0[n], h[t-1,n])) + late[t,n]
  output y[t,n] = h[t,n]*where(t == 0, 1, h[t-1,n]) + early[t,n]
}
)"},
    {"what is recomputed beside a recurrence", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], h0[N]
scan t {
  recompute a[t,n] = sin(x[t,n])
  let h[t,n] = where(t == 0, h0[n], h[t-1,n]) + x[t,n]
  let e[t,n] = exp(h[t,n]/4)
  output y[t,n] = a[t,n]*e[t,n]
}
)"},
    {"a system of equations in every step", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input A[N,N], h0[S,N], x[T,S,N]
scan t {
  let p[t,s,n] = where(t == 0, h0[s,n], h[t-1,s,n])
  output h[t,s,n] = solve[k,n](where(n == k, 2 + p[t,s,n]^2, A[n,k]*A[k,n]/8), x[t,s,k] + p[t,s,k])
}
)"},
    {"two scans, one after the other", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], a[N]
scan t {
  let f[t,n] = x[t,n] + a[n]*where(t == 0, 0, sin(f[t-1,n]))
}
scan t backwards {
  let g[t,n] = f[t,n] + a[n]*where(t == T-1, 0, sin(g[t+1,n]))
}
output y[n] = sum[t](g[t,n]*x[t,n])
)"},
    {"all steps before", R"(dim T dynamic
input f[T], h
scan t {
  output y[t in 0..T] = f[t] + h*sum[u in 0..t](cos(h*(t-u))*sin(y[u]))
}
)"},
    {"backward substitution", R"(dim T dynamic, S dynamic
index s:S
input U[T,T], b[T,S]
scan t backwards {
  output x[t in 0..T,s] = (b[t,s] - sum[u in t+1..T](U[t,u]*x[u,s]))/(2 + U[t,t]^2)
}
)"},
    {"Cholesky factor by columns", R"(dim T dynamic
index i:T, l:T
input x[T,T]
let a[i,l] = sum[k in 0..T](x[i,k]*x[l,k]) + where(i == l, T, 0)
scan t {
  let d[t in 0..T] = sqrt(a[t,t] - sum[u in 0..t](c[u,t]^2))
  output c[t in 0..T,i] = where(i >= t, (a[i,t] - sum[u in 0..t](c[u,i]*c[u,t]))/d[t], 0)
}
)"},
    {"steps before chosen by a condition", R"(dim T dynamic, N
index u:T, n:N
input x[T,N], g
scan t {
  let p[t in 0..T,n] = x[t,n] + g*sum[u](where(u < t, q[u,n], 0))
  let q[t in 0..T,n] = tanh(p[t,n])*sum[u](where(u <= t-2, p[u,n], 0.1))
}
output y[n] = sum[t in 0..T](q[t,n]*p[t,n])
)"},
    {"diffusion with a coefficient", R"(dim T dynamic, N
index t:T, n:N
input u0[N], f[T], c
scan t {
  let inside[t,n] = where(t > 0, u[t-1,n] + c*(where(n < N-1, u[t-1,n+1], 0) + where(n > 0, u[t-1,n-1], 0)), 0)
  output u[t,n] = f[t] + where(t == 0, u0[n], where(n > 0 and n < N-1, u[t-1,n] + c*(u[t-1,n+1] + u[t-1,n-1]), inside[t,n]))
}
)"},
    {"two steps before, the last two wanted", R"(dim T dynamic, N
index t:T, n:N
input u0[N], f[T], c
scan t {
  let u[t,n] = where(t == 0, u0[n], f[t] + 2*u[t-1,n] - where(t >= 2, u[t-2,n], 0) +
                 c*(where(n < N-1, u[t-1,n+1], 0) + where(n > 0, u[t-1,n-1], 0)))/2
}
output y[n] = where(T >= 1, u[T-1,n], 0) + where(T >= 2, u[T-2,n]^2, 0)
)"},
    {"products of states, the last one wanted", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input h0[S,N], W[N,N], x[T,S,N]
scan t backwards {
  let o[t,s,n] = sum[k](W[n,k]*where(t == T-1, h0[s,k], h[t+1,s,k]))/N
  let m[t,n] = sum[s](o[t,s,n]^2)
  let h[t,s,n] = tanh(o[t,s,n] + x[t,s,n]) - m[t,n] + where(t < T-1, m[t+1,n], 0)
}
output y[s,n] = where(T >= 1, h[0,s,n], 0)
)"},
    {"nested choices among a few, and the step before", R"(dim T dynamic, N
index t:T, n:N, c in 0..3
input s0[3,N], r
scan t {
  let s[t,c,n] = where(t == 0, s0[c,n], sn[t-1,c,n])
  let k[t,c,n] = where(c == 0, r*(s[t,1,n] - s[t,0,n]), where(c == 1, s[t,0,n] - r*s[t,2,n], s[t,0,n]*s[t,1,n]))/4
  let a[t,c,n] = sin(s[t,c,n] + k[t,c,n])
  let sn[t,c,n] = a[t,c,n] + where(c == 0, r*a[t,1,n], where(c == 1, a[t,0,n]*a[t,2,n], a[t,0,n] - r*a[t,2,n]))/4
}
output y[t,c,n] = sn[t,c,n]
)"},
    {"matrices of the step before, and of all before", R"(dim T dynamic, N
index t:T, n:N, i:N, u:T
input x[T,N], K[N,N]
let A[i,n] = K[i,n]*K[n,i] + where(i == n, 4 + N, 0)
scan t {
  let P[t,i,n] = A[i,n] + where(t == 0, 0, h[t-1,i]*h[t-1,n])
  let q[t,n] = where(t == 0, x[t,n], solve[i,n](P[t-1,i,n], x[t,i]))
  output h[t,n] = sin(q[t,n]) + sum[u](where(u < t, solve[i,n](A[i,n], h[u,i]), 0))
}
)"},
};

inline std::string_view recurrence(std::string_view name) {
  return std::ranges::find(kRecurrences, name, &Recurrence::name)->text;
}

}  // namespace moxie::test
