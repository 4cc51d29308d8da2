#pragma once
// A formula with its gradient at a random point of its domain, and what devices make of it.
#include <string>

#include "runtime/device.h"
#include "tests/aot/c_caller.h"

namespace moxie::test {

/// All outputs, and the gradients of them with respect to all that the operation does not hold constant.
CCall sample_call(const std::string& function, const Program& program, DType dtype = DType::f32);

/// A formula as text at a random point; its function is called f.
CCall call_of(const std::string& text, const DimValues& dims);

/// Sums over samples in chunks, random numbers, recurrences of which all steps or the last one are kept, an output with
/// gaps, and small matrices.
inline constexpr const char* kManyKinds = R"(
dim S dynamic, N = 5
index s:S, n:N, m:N, t:S
input x[S,N], w[N] > 0
let inverse_w[n,m] = inverse[n,m](where(n == m, w[n], 0))
output total[n] = sum[s](x[s,n] * inverse_w[n,n])
output noisy[s,n] = x[s,n] + randn(2)
output lower[n,m in 0..n+1] = sum[s](x[s,n] * x[s,m])
scan t {
  let level[t,n] = sum[s](x[s,n]*where(t > 0, h[t-1,n], 1))/S
  output h[t,n] = where(t > 0, 0.5*h[t-1,n], 0) + x[t,n]*level[t,n]
  let carried[t,n] = sum[s](x[s,n]*where(t > 0, carried[t-1,n], 1))/S + 0.5*x[t,n]
}
output last[n] = where(S >= 1, carried[S-1,n], 0)
)";

/// Attention with its gradients, and a cumulative loss with checkpoints: parts of both run in slices.
inline constexpr const char* kAttention = R"(
dim H, T dynamic, J, D
index h:H, i:T, j:J, d:D
input q[H,T,D], k[H,J,D], v[H,J,D]
let p[h,i,j] = softmax[j](sum[d](q[h,i,d]*k[h,j,d])/sqrt(D))
output y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
)";
inline constexpr const char* kCheckpoints = R"(
dim T dynamic, N
index t:T, n:N, m:N
input x[T,N], W[N,N]
scan t recompute every sqrt {
  let h[t,n] = tanh(x[t,n] + where(t > 0, sum[m](W[n,m]*h[t-1,m]), 0))
}
output loss = sum[t,n](h[t,n]^2)
)";
/// Each way to factor a matrix, of sizes that are not known when compiling. The matrix T may turn out to be wider than
/// tall.
inline constexpr const char* kMatrices = R"(
dim S dynamic, M dynamic, N dynamic
index s:S, m:M, n:N, i:N, j:N, k:N, l:N
input A[S,N,N], b[S,N], T[S,M,N]
let K[s,i,j] = sum[n](A[s,n,i]*A[s,n,j]) + where(i == j, 1, 0)
output x[s,j] = solve[i,j](K[s,i,j], b[s,i])
output volume[s] = logdet[i,j](K[s,i,j])
output y[s,j] = lu_solve[i,j](A[s,i,j] + where(i == j, 3, 0), b[s,i])
output values[s,k] = eigenvalues[i,j](K[s,i,j])[k]
output upper[s,k,l] = qr_r[m,n](T[s,m,n])[k,l]
output lengths[s,k] = singular_values[m,n](T[s,m,n])[k]
)";
/// A formula with all its gradients at a random point; its function is called f.
CCall gradients_of(const std::string& text, const DimValues& dims);

/// "cpu:x86-64-v4": the widest level of this processor.
std::string host_target();

/// The values of static dims.
DimValues static_dims(const CCall& call);

struct DeviceRun {
  Tensors outputs;
  bool has_products;  // that the device left to a library, which a library made ahead of time does not call
};
DeviceRun run_with_plan(const CCall& call, const std::shared_ptr<Device>& device);
Tensors run_on(const CCall& call, const std::shared_ptr<Device>& device);

}  // namespace moxie::test
