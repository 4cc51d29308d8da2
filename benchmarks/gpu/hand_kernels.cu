// What a GPU does with kernels written by hand, as JSON: plain copy, and one layer of Gaussian process neurons with its
// gradient. The layer's small matrices per unit are given, not computed: `beta` (mean) and `weight` (variance,
// symmetric pairs r <= t taken together).
//
//   nvcc -O3 -std=c++17 -arch=native --use_fast_math hand_kernels.cu -o hand_kernels && ./hand_kernels [S N]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

constexpr int R = 14, kPairs = R * (R + 1) / 2;
constexpr int kUnits = 32, kRows = 4;  // of a block: a warp along the units, so that memory is read in full lines
constexpr int kSamplesPerThread = 64;
constexpr float kLog2e = 1.44269504f;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "hand_kernels: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct Tables {                                 // per unit, [k][N]
  const float *point, *beta, *middle, *weight;  // R, R, pairs, pairs
};
struct Staged {
  float point[R][kUnits], beta[R][kUnits], middle[kPairs][kUnits], weight[kPairs][kUnits];
};

__device__ void stage(Staged& to, const Tables& from, int N) {
  const int unit = threadIdx.x, n = blockIdx.x * kUnits + unit;
  for (int k = threadIdx.y; k < kPairs; k += kRows) {
    to.middle[k][unit] = n < N ? from.middle[k * N + n] : 0;
    to.weight[k][unit] = n < N ? from.weight[k * N + n] : 0;
    if (k >= R) continue;
    to.point[k][unit] = n < N ? from.point[k * N + n] : 0;
    to.beta[k][unit] = n < N ? from.beta[k * N + n] : 0;
  }
  __syncthreads();
}

/// Without it the compiler keeps the tables in registers from sample to sample, and spills.
__device__ void load_again() { asm volatile("" ::: "memory"); }

// lambda = 1, sigma = 0, and var > 0, for which the variance needs no cut at zero.
__global__ void forward(Tables tables, const float* mu, const float* var, float* mean, float* variance, int S, int N) {
  __shared__ Staged unit;
  stage(unit, tables, N);
  const int i = threadIdx.x, n = blockIdx.x * kUnits + i;
  if (n >= N) return;
  const int begin = (blockIdx.y * kRows + threadIdx.y) * kSamplesPerThread, end = min(begin + kSamplesPerThread, S);
#pragma unroll 2
  for (int s = begin; s < end; ++s) {
    load_again();
    const float m = mu[s * N + n], v = var[s * N + n], p = 1 + v, q = p + v;
    const float cp = -kLog2e / (2 * p), cq = -kLog2e / q;
    float a = 0, b = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) a += unit.beta[r][i] * exp2f(cp * (m - unit.point[r][i]) * (m - unit.point[r][i]));
#pragma unroll
    for (int k = 0; k < kPairs; ++k)
      b += unit.weight[k][i] * exp2f(cq * (m - unit.middle[k][i]) * (m - unit.middle[k][i]));
    a *= rsqrtf(p);
    mean[s * N + n] = a;
    variance[s * N + n] = 1 - b * rsqrtf(q) - a * a;
  }
}

// Gradients of beta and weight are sums over the samples of a thread; [strip][k][N].
__global__ void backward(Tables tables, const float* mu, const float* var, const float* cot_mean,
                         const float* cot_variance, float* grad_mu, float* grad_var, float* grad_beta,
                         float* grad_weight, int S, int N) {
  __shared__ Staged unit;
  stage(unit, tables, N);
  const int i = threadIdx.x, n = blockIdx.x * kUnits + i, strip = blockIdx.y * kRows + threadIdx.y;
  if (n >= N) return;
  float beta_sum[R] = {}, weight_sum[kPairs] = {};
  for (int s = strip * kSamplesPerThread; s < min((strip + 1) * kSamplesPerThread, S); ++s) {
    load_again();
    const float m = mu[s * N + n], v = var[s * N + n], p = 1 + v, q = p + v, root_p = rsqrtf(p), root_q = rsqrtf(q);
    const float cp = -kLog2e / (2 * p), cq = -kLog2e / q, gv = cot_variance[s * N + n];
    float a0 = 0, a1 = 0, a2 = 0, b0 = 0, b1 = 0, b2 = 0, e[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float d = m - unit.point[r][i];
      e[r] = exp2f(cp * d * d);
      const float w = unit.beta[r][i] * e[r];
      a0 += w, a1 += w * d, a2 += w * d * d;
    }
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const float d = m - unit.middle[k][i], x = exp2f(cq * d * d), w = unit.weight[k][i] * x;
      b0 += w, b1 += w * d, b2 += w * d * d;
      weight_sum[k] -= gv * root_q * x;
    }
    const float gm = cot_mean[s * N + n] - 2 * a0 * root_p * gv;
#pragma unroll
    for (int r = 0; r < R; ++r) beta_sum[r] += gm * root_p * e[r];
    grad_mu[s * N + n] = -gm * root_p * a1 / p + gv * root_q * 2 * b1 / q;
    grad_var[s * N + n] = gm * root_p * (a2 / p - a0) / (2 * p) - gv * root_q * (2 * b2 / q - b0) / q;
  }
#pragma unroll
  for (int r = 0; r < R; ++r) grad_beta[(strip * R + r) * N + n] = beta_sum[r];
#pragma unroll
  for (int k = 0; k < kPairs; ++k) grad_weight[(strip * kPairs + k) * N + n] = weight_sum[k];
}

__global__ void add_strips(const float* parts, float* total, int strips, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int strip = 0; strip < strips; ++strip) sum += parts[static_cast<long>(strip) * count + i];
  total[i] = sum;
}

float* allocate(std::size_t count) {
  float* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(float)));
  return memory;
}

float* upload(const std::vector<float>& values) {
  float* memory = allocate(values.size());
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  return memory;
}

std::vector<float> download(const float* memory, std::size_t count) {
  std::vector<float> values(count);
  check(cudaMemcpy(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

double median_seconds(const std::function<void()>& work) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  std::vector<float> times(21);
  for (int i = 0; i < 5; ++i) work();
  for (float& time : times) {
    check(cudaEventRecord(start));
    work();
    check(cudaEventRecord(stop));
    check(cudaEventSynchronize(stop));
    check(cudaEventElapsedTime(&time, start, stop));
  }
  check(cudaGetLastError());
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] * 1e-3;
}

double copy_bytes_per_second() {
  constexpr std::size_t kBytes = std::size_t(1) << 30;
  float *from = allocate(kBytes / sizeof(float)), *to = allocate(kBytes / sizeof(float));
  check(cudaMemset(from, 0, kBytes));
  const double seconds = median_seconds([&] { check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice)); });
  check(cudaFree(from));
  check(cudaFree(to));
  return 2.0 * kBytes / seconds;
}

struct Layer {
  int S, N;
  std::vector<float> mu, var, cot_mean, cot_variance, point, beta, middle, weight;
};

Layer make_layer(int S, int N) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Layer layer{S, N, std::vector<float>(std::size_t(S) * N), {}, {}, {}, {}, {}, {}, {}};
  layer.var = layer.cot_mean = layer.cot_variance = layer.mu;
  for (auto* tensor : {&layer.mu, &layer.var, &layer.cot_mean, &layer.cot_variance}) {
    for (float& value : *tensor) value = normal(random);
  }
  for (float& value : layer.var) value = std::abs(value) + 0.05F;
  for (int r = 0; r < R; ++r) layer.point.insert(layer.point.end(), N, -2 + 4.0F * r / (R - 1));
  for (int r = 0; r < R; ++r) {
    for (int t = r; t < R; ++t) layer.middle.insert(layer.middle.end(), N, -2 + 2.0F * (r + t) / (R - 1));
  }
  for (int i = 0; i < R * N; ++i) layer.beta.push_back(0.3F * normal(random));
  for (int i = 0; i < kPairs * N; ++i) layer.weight.push_back(0.03F * normal(random));
  return layer;
}

/// cot_mean * mean + cot_variance * variance of one element, in double.
double contribution(const Layer& layer, std::size_t element, double mu, double var) {
  const std::size_t n = element % layer.N;
  double a = 0, b = 0;
  for (int r = 0; r < R; ++r)
    a += layer.beta[r * layer.N + n] * std::exp(-std::pow(mu - layer.point[r * layer.N + n], 2) / (2 * (1 + var)));
  for (int k = 0; k < kPairs; ++k)
    b += layer.weight[k * layer.N + n] * std::exp(-std::pow(mu - layer.middle[k * layer.N + n], 2) / (1 + 2 * var));
  const double mean = a / std::sqrt(1 + var), variance = 1 - b / std::sqrt(1 + 2 * var) - mean * mean;
  return layer.cot_mean[element] * mean + layer.cot_variance[element] * variance;
}

/// Largest difference of a few elements' values and slopes (in mu and var) from formula and finite differences in
/// double.
double worst_error(const Layer& layer, const std::vector<float>& mean, const std::vector<float>& variance,
                   const std::vector<float>& grad_mu, const std::vector<float>& grad_var) {
  constexpr double h = 1e-5;
  double worst = 0;
  for (std::size_t i = 0; i < layer.mu.size(); i += layer.mu.size() / 257 + 1) {
    const double m = layer.mu[i], v = layer.var[i];
    const auto slope = [&](double dm, double dv) {
      return (contribution(layer, i, m + dm, v + dv) - contribution(layer, i, m - dm, v - dv)) / (2 * h);
    };
    const double value = layer.cot_mean[i] * mean[i] + layer.cot_variance[i] * variance[i];
    worst = std::max({worst, std::abs(value - contribution(layer, i, m, v)), std::abs(grad_mu[i] - slope(h, 0)),
                      std::abs(grad_var[i] - slope(0, h))});
  }
  return worst;
}

int main(int argc, char** argv) {
  const int S = argc > 2 ? std::atoi(argv[1]) : 16384, N = argc > 2 ? std::atoi(argv[2]) : 512;
  const Layer layer = make_layer(S, N);
  const std::size_t count = layer.mu.size();
  const Tables tables{upload(layer.point), upload(layer.beta), upload(layer.middle), upload(layer.weight)};
  const float *mu = upload(layer.mu), *var = upload(layer.var), *cot_mean = upload(layer.cot_mean),
              *cot_variance = upload(layer.cot_variance);
  const dim3 block(kUnits, kRows),
      grid((N + kUnits - 1) / kUnits, (S + kRows * kSamplesPerThread - 1) / (kRows * kSamplesPerThread));
  const int strips = static_cast<int>(grid.y) * kRows;
  float *mean = allocate(count), *variance = allocate(count), *grad_mu = allocate(count), *grad_var = allocate(count);
  float *beta_parts = allocate(std::size_t(strips) * R * N), *weight_parts = allocate(std::size_t(strips) * kPairs * N);
  float *grad_beta = allocate(std::size_t(R) * N), *grad_weight = allocate(std::size_t(kPairs) * N);
  const auto run_forward = [&] { forward<<<grid, block>>>(tables, mu, var, mean, variance, S, N); };
  const auto run_both = [&] {
    run_forward();
    backward<<<grid, block>>>(tables, mu, var, cot_mean, cot_variance, grad_mu, grad_var, beta_parts, weight_parts, S,
                              N);
    add_strips<<<(R * N + 255) / 256, 256>>>(beta_parts, grad_beta, strips, R * N);
    add_strips<<<(kPairs * N + 255) / 256, 256>>>(weight_parts, grad_weight, strips, kPairs * N);
  };
  const double forward_s = median_seconds(run_forward), both_s = median_seconds(run_both);
  const double error = worst_error(layer, download(mean, count), download(variance, count), download(grad_mu, count),
                                   download(grad_var, count));
  const bool wrong = !(error < 1e-3);
  std::printf(
      "{\"copy_bytes_per_s\": %.6g, \"gpn_layer_variance\": {\"S\": %d, \"N\": %d, \"R\": %d, \"forward_s\": %.6g, "
      "\"forward_backward_s\": %.6g, \"largest_error\": %.3g}, \"wrong\": %s}\n",
      copy_bytes_per_second(), S, N, R, forward_s, both_s, error, wrong ? "true" : "false");
  return wrong ? 2 : 0;
}
