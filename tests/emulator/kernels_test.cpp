// Correct kernels compute on the emulated device what they do on a GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/emulator/emulated_kernel.h"

namespace {

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

}  // namespace

TEST_CASE("vectors are added") {
  const EmulatedKernel add(R"((Global<const float> x, Global<const float> y, Global<float> z, const long long n) {
    EXTENT(x, n);
    EXTENT(y, n);
    EXTENT(z, n);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + 2 * y[i];
  })");
  const DeviceArray<float> x(counting(1000)), y(counting(1000)), z(counting(1000));
  CHECK(add({.blocks = 8, .threads = 128}, x, y, z, 1000LL) == "");
  CHECK(z.values()[0] == 3);
  CHECK(z.values()[999] == 3000);
}

TEST_CASE("a block adds in shared memory") {
  const EmulatedKernel sum(R"((Global<const float> x, Global<float> y) {
    SHARED(float, parts, 256);
    const int i = threadIdx.x;
    parts[i] = x[blockIdx.x * 256 + i];
    for (int half = 128; half > 0; half /= 2) {
      __syncthreads();
      if (i < half) parts[i] += parts[i + half];
    }
    if (i == 0) y[blockIdx.x] = parts[0];
  })");
  const DeviceArray<float> x(counting(1024)), y(std::vector<float>(4));
  CHECK(sum({.blocks = 4, .threads = 256}, x, y) == "");
  CHECK(y.values() == std::vector<float>{32896, 98432, 163968, 229504});
}

TEST_CASE("a warp adds by shuffles, in each type") {
  const EmulatedKernel sum(R"((Global<float> f, Global<double> d, Global<long long> l) {
    float a = threadIdx.x;
    double b = threadIdx.x;
    long long c = threadIdx.x;
    for (int offset = 16; offset > 0; offset /= 2) {
      a += __shfl_down_sync(0xffffffffu, a, offset);
      b += __shfl_xor_sync(0xffffffffu, b, offset);
      c += __shfl_xor_sync(0xffffffffu, c, offset);
    }
    if (threadIdx.x == 0) f[0] = a;
    d[threadIdx.x] = b;
    l[threadIdx.x] = __shfl_sync(0xffffffffu, c, threadIdx.x + 1);
  })");
  const DeviceArray<float> f({0});
  const DeviceArray<double> d(std::vector<double>(32));
  const DeviceArray<long long> l(std::vector<long long>(32));
  CHECK(sum({}, f, d, l) == "");
  CHECK(f.values()[0] == 496);
  CHECK(d.values()[31] == 496);
  CHECK(l.values()[31] == 496);
}

TEST_CASE("shuffles within parts of a warp, up, and beyond the end") {
  const EmulatedKernel move(R"((Global<int> up, Global<int> down, Global<int> part) {
    const int i = threadIdx.x;
    up[i] = __shfl_up_sync(0xffffffffu, i, 1);
    down[i] = __shfl_down_sync(0xffffffffu, i, 3, 8);
    part[i] = __shfl_sync(0xffffffffu, i, 2, 8);
  })");
  const DeviceArray<int> up(std::vector<int>(32)), down(std::vector<int>(32)), part(std::vector<int>(32));
  CHECK(move({}, up, down, part) == "");
  CHECK(up.values()[0] == 0);
  CHECK(up.values()[31] == 30);
  CHECK(down.values()[4] == 7);
  CHECK(down.values()[5] == 5);
  CHECK(part.values()[31] == 26);
}

TEST_CASE("votes") {
  const EmulatedKernel vote(R"((Global<unsigned> y) {
    const int i = threadIdx.x;
    const unsigned odd = __ballot_sync(0xffffffffu, i % 2 == 1);
    const unsigned half = i < 16 ? 0x0000ffffu : 0xffff0000u;
    y[i] = __any_sync(half, i == 20) ? odd : unsigned(__all_sync(half, i < 16));
  })");
  const DeviceArray<unsigned> y(std::vector<unsigned>(32));
  CHECK(vote({}, y) == "");
  CHECK(y.values()[0] == 1);
  CHECK(y.values()[31] == 0xaaaaaaaau);
}

TEST_CASE("atomic operations") {
  const EmulatedKernel count(R"((Global<int> sum, Global<unsigned> extremes, Global<unsigned long long> first) {
    atomicAdd(&sum[0], 2);
    atomicMin(&extremes[0], threadIdx.x + 5);
    atomicMax(&extremes[1], threadIdx.x + 5);
    if (atomicCAS(&first[0], 0ull, 1ull) == 0) atomicExch(&first[1], 7ull);
  })");
  const DeviceArray<int> sum({1});
  const DeviceArray<unsigned> extremes({100, 0});
  const DeviceArray<unsigned long long> first({0, 0});
  CHECK(count({.blocks = 2, .threads = 64}, sum, extremes, first) == "");
  CHECK(sum.values()[0] == 257);
  CHECK(extremes.values() == std::vector<unsigned>{5, 68});
  CHECK(first.values() == std::vector<unsigned long long>{1, 7});
}

TEST_CASE("shared memory of a size that the launch tells") {
  const EmulatedKernel reverse(R"((Global<double> x) {
    DYNAMIC_SHARED(double, copy);
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
  })");
  const DeviceArray<double> x({1, 2, 3});
  CHECK(reverse({.threads = 3, .shared_bytes = 24}, x) == "");
  CHECK(x.values() == std::vector<double>{3, 2, 1});
}

TEST_CASE("vector types, and memory of bytes taken as something else") {
  const EmulatedKernel scale(R"((Global<const float> x, Global<float> y, Global<unsigned char> bytes) {
    const float4 four = pointer_cast<const float4>(x)[threadIdx.x];
    pointer_cast<float4>(y)[threadIdx.x] = make_float4(four.w, four.z, four.y, four.x);
    const auto own = slice<double>(bytes, 16 * threadIdx.x, 2);
    own[0] = four.x;
    own[1] = own[0] + four.y;
    y[8 + threadIdx.x] = float(own[1]);
  })");
  const DeviceArray<float> x(counting(8)), y(std::vector<float>(10));
  const DeviceArray<unsigned char> bytes(std::vector<unsigned char>(32));
  CHECK(scale({.threads = 2}, x, y, bytes) == "");
  CHECK(y.values() == std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5, 3, 11});
}

TEST_CASE("the last block to finish reads what all have written, behind fences") {
  const EmulatedKernel sum(R"((Global<const float> x, Global<float> parts, Global<unsigned> done, Global<float> y) {
    SHARED(bool, last, 1);
    float value = x[blockIdx.x * 32 + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x == 0) {
      parts[blockIdx.x] = value;
      __threadfence();
      last[0] = atomicAdd(&done[0], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last[0] || threadIdx.x != 0) return;
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += parts[b];
    y[0] = total;
  })");
  const DeviceArray<float> x(counting(128)), parts(std::vector<float>(4)), y({0});
  const DeviceArray<unsigned> done({0});
  CHECK(sum({.blocks = 4}, x, parts, done, y) == "");
  CHECK(y.values()[0] == 8256);
}

TEST_CASE("lanes of a warp exchange values in shared memory behind __syncwarp") {
  const EmulatedKernel rotate(R"((Global<int> y) {
    SHARED(int, place, 64);
    const int i = threadIdx.x, half = i & ~15;
    const unsigned mask = (i & 16) == 0 ? 0x0000ffffu : 0xffff0000u;
    for (int round = 0; round < 3; ++round) {
      place[i] = i + round;
      __syncwarp(mask);
      const int next = place[half + (i + 1) % 16];
      __syncwarp(mask);
      y[i] = next;
    }
  })");
  const DeviceArray<int> y(std::vector<int>(64));
  CHECK(rotate({.threads = 64}, y) == "");
  CHECK(y.values()[15] == 2);
  CHECK(y.values()[16] == 19);
}

TEST_CASE("functions of mathematics have CUDA's names") {
  const EmulatedKernel values(R"((Global<const double> x, Global<double> y, Global<float> z) {
    const double v = x[0];
    const float f = float(v);
    double* const all = nullptr;
    y[0] = rsqrt(v) + normcdf(v) + lgamma(v) + exp2(v) + cospi(v);
    z[0] = rsqrt(f) + normcdf(f) + lgamma(f) + exp2(f) + cospi(f);
    y[1] = __umulhi(0x80000000u, 6u) + __double_as_longlong(1.0) + __popc(255);
    z[1] = fmaf(f, 2.0f, 1.0f) + __int_as_float(0x3f800000) + (all == nullptr);
  })");
  const DeviceArray<double> x({0.25}), y({0, 0});
  const DeviceArray<float> z({0, 0});
  CHECK(values({.threads = 1}, x, y, z) == "");
  const double expected =
      2 + 0.5 * std::erfc(-0.25 / std::sqrt(2.0)) + std::lgamma(0.25) + std::exp2(0.25) + std::sqrt(0.5);
  CHECK(y.values()[0] == doctest::Approx(expected).epsilon(1e-14));
  CHECK(z.values()[0] == doctest::Approx(expected).epsilon(1e-6));
  CHECK(y.values()[1] == 3 + 4607182418800017408.0 + 8);
  CHECK(z.values()[1] == 3.5);
}
