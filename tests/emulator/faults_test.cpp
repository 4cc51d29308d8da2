// Kernels that are wrong fail on the emulated device, with the kernel, the block, the thread, what and where, though
// their numbers might be right.
#include <doctest/doctest.h>

#include "tests/emulator/emulated_kernel.h"

namespace {

const DeviceArray<float>& floats() {
  static const DeviceArray<float> array(std::vector<float>(64, 1.0f));
  return array;
}

/// What one kernel on `floats()` says.
std::string run(const std::string& body, Shape shape = {}) {
  const EmulatedKernel kernel("(Global<float> x) { const int i = threadIdx.x;\n" + body + "}");
  return kernel(shape, floats());
}

}  // namespace

TEST_CASE("a missing barrier between a write and a read") {
  CHECK(run("SHARED(float, a, 64); a[i] = 1; x[i] = a[(i + 63) % 64];", {.threads = 64}) ==
        "kernel f, block (0,0,0), thread (0,0,0): reads shared a[63], which no thread of the block has written");
  CHECK(run("SHARED(float, a, 64); a[i] = 1; x[i] = a[i == 0 ? 0 : i - 1];", {.threads = 64}) ==
        "kernel f, block (0,0,0), thread (1,0,0): reads shared a[0], which thread (0,0,0) has written, and no barrier "
        "in between orders the two");
}

TEST_CASE("a missing barrier between a read and the next write") {
  const std::string round = "SHARED(float, a, 64); a[i] = 1; __syncthreads(); const float y = a[63 - i]; ";
  CHECK(run(round + "a[i] = y;", {.threads = 64}) ==
        "kernel f, block (0,0,0), thread (0,0,0): reads shared a[63], which thread (63,0,0) has written, and no "
        "barrier in between orders the two");
  CHECK(run(round + "__syncthreads(); a[i] = y;", {.threads = 64}) == "");
}

TEST_CASE("one of many readers may be the one who races") {
  const std::string all_read = "SHARED(float, a, 64); if (i == 0) a[0] = 1; __syncthreads(); float y = a[0]; ";
  CHECK(run(all_read + "if (i == 63) a[0] = y;", {.threads = 64}).find("no barrier in between orders the two") !=
        std::string::npos);
  CHECK(run(all_read + "__syncwarp(); if (i == 63) a[0] = y;", {.threads = 64})
            .find("no barrier in between orders the two") != std::string::npos);
  CHECK(run(all_read + "__syncwarp(); y += a[0]; __syncwarp(); if (i == 31) a[0] = y;") == "");
  CHECK(run(all_read + "__syncwarp(); if (i == 31) { y += a[0]; a[0] = y; }") == "");
}

TEST_CASE("__syncwarp orders the lanes of its mask only") {
  const std::string exchange = "SHARED(float, a, 64); a[i] = 1; ";
  CHECK(run(exchange + "__syncwarp(); x[i] = a[i ^ 1];", {.threads = 64}) == "");
  CHECK(run(exchange + "__syncwarp(); x[i] = a[i ^ 32];", {.threads = 64})
            .find("reads shared a[63], which no thread of the block has written") != std::string::npos);
  CHECK(run(exchange + "__syncwarp(i < 16 ? 0xffffu : 0xffff0000u); x[i] = a[i ^ 1];") == "");
  CHECK(run(exchange + "__syncwarp(i < 16 ? 0xffffu : 0xffff0000u); x[i] = i < 16 ? 0 : a[i ^ 16];") ==
        "kernel f, block (0,0,0), thread (31,0,0): reads shared a[15], which thread (15,0,0) has written, and no "
        "barrier in between orders the two");
}

TEST_CASE("order passes from lane to lane") {
  CHECK(run("SHARED(float, a, 1); if (i == 0) a[0] = 1; if (i < 2) __syncwarp(0x3u); if (i == 1 || i == 2) "
            "__syncwarp(0x6u); if (i == 2) x[0] = a[0];") == "");
}

TEST_CASE("a barrier in divergent code") {
  CHECK(run("if (i < 5) __syncthreads();", {.threads = 8}) ==
        "kernel f, block (0,0,0), thread (5,0,0): thread (0,0,0) of block (0,0,0) waits at __syncthreads (line 2) for "
        "good: thread (5,0,0) has finished");
  CHECK(run("if (i < 5) __syncthreads();\nelse __syncthreads();", {.threads = 8}) ==
        "kernel f, block (0,0,0), thread (7,0,0): thread (0,0,0) of block (0,0,0) waits at __syncthreads (line 2) for "
        "good: thread (5,0,0) waits at "
        "__syncthreads (line 3)");
  CHECK(run("if (i == 0) return;\n__syncthreads();", {.threads = 8}) ==
        "kernel f, block (0,0,0), thread (1,0,0): thread (1,0,0) of block (0,0,0) waits at __syncthreads (line 3) for "
        "good: thread (0,0,0) has finished");
  CHECK(run("if (i == 0) __syncthreads(); else __syncwarp(); ", {.threads = 8}) ==
        "kernel f: thread (0,0,0) of block (0,0,0) waits at __syncthreads (line 2) for good: thread (1,0,0) waits at "
        "__syncwarp (line 2)");
}

TEST_CASE("subscripts outside") {
  CHECK(run("EXTENT(x, 40); x[i + 9] = 1;") ==
        "kernel f, block (0,0,0), thread (31,0,0): subscript 40 of global x, which has 40 elements");
  CHECK(run("EXTENT(x, 40); const float y = x[i - 1];") ==
        "kernel f, block (0,0,0), thread (0,0,0): subscript -1 of global x, which has 40 elements");
  CHECK(run("EXTENT(x, 65);") ==
        "kernel f, block (0,0,0), thread (0,0,0): EXTENT(x, 65) goes beyond the allocation, which has room for 64 "
        "elements");
  CHECK(run("SHARED(float, a, 31); a[i] = 1;") ==
        "kernel f, block (0,0,0), thread (31,0,0): subscript 31 of shared a, which has 31 elements");
  CHECK(run("SHARED(float, a, 31); a[0] = a[31];") ==
        "kernel f, block (0,0,0), thread (0,0,0): subscript 31 of shared a, which has 31 elements");
  CHECK(
      run("x[i + 40] = 1;", {.threads = 25}) ==
      "kernel f, block (0,0,0), thread (24,0,0): subscript 64 of global memory without EXTENT, which has 64 elements");
}

TEST_CASE("shared memory of the launch ends where the launch says") {
  CHECK(run("DYNAMIC_SHARED(float, a); a[i] = 1;", {.shared_bytes = 40}) ==
        "kernel f, block (0,0,0), thread (10,0,0): subscript 10 of shared a, which has 10 elements");
}

TEST_CASE("a shuffle whose lanes do not all come") {
  CHECK(run("float y = 1;\nif (i < 16) y = __shfl_xor_sync(0xffffffffu, y, 1);\nx[i] = y;") ==
        "kernel f: thread (0,0,0) of block (0,0,0) waits at __shfl_xor_sync (line 3) for good: thread (16,0,0) has "
        "finished");
  CHECK(run("float y = 1;\nif (i < 16) y = __shfl_xor_sync(0xffffffffu, y, 1);\nelse y = __shfl_xor_sync(0xffffffffu, "
            "y, 1);") ==
        "kernel f: thread (0,0,0) of block (0,0,0) waits at __shfl_xor_sync (line 3) for good: thread (16,0,0) waits "
        "at __shfl_xor_sync (line 4)");
  CHECK(
      run("__any_sync(i < 16 ? 0xffffffffu : 0xffff0000u, true);") ==
      "kernel f: thread (0,0,0) of block (0,0,0) waits at __any_sync (line 2) for good: thread (16,0,0) has finished");
}

TEST_CASE("masks that cannot be") {
  CHECK(run("__syncwarp(0x1u);") ==
        "kernel f, block (0,0,0), thread (1,0,0): calls __syncwarp (line 2) with mask 0x00000001, which does not name "
        "its own lane 1");
  CHECK(run("x[i] = __shfl_sync(0x3u, x[i], 5);", {.threads = 2}) ==
        "kernel f, block (0,0,0), thread (1,0,0): __shfl_sync (line 2) gives thread (0,0,0) the value of lane 5, which "
        "mask 0x00000003 does not name");
  CHECK(run("x[i] = __shfl_sync(0xffffffffu, x[i], 5);", {.threads = 2}) ==
        "kernel f, block (0,0,0), thread (1,0,0): __shfl_sync (line 2) gives thread (0,0,0) the value of lane 5, which "
        "the block does not have");
}

TEST_CASE("two threads write one element") {
  CHECK(run("x[i / 2] = 1;") ==
        "kernel f, block (0,0,0), thread (1,0,0): writes global memory without EXTENT[0], which thread (0,0,0) has "
        "written, and no barrier in between orders the two");
  CHECK(run("EXTENT(x, 64); x[i] = 1;", {.blocks = 2}) ==
        "kernel f, block (1,0,0), thread (0,0,0): writes global x[0], which thread (0,0,0) of block (0,0,0) has "
        "written, and nothing orders the two");
  CHECK(run("if (i == 0) x[0] = 1; __syncthreads(); if (i == 1) x[0] = 2;") == "");
}

TEST_CASE("a block touches what another has written or read") {
  CHECK(run("EXTENT(x, 64); if (blockIdx.x == 0) x[5] = 1; else x[0] = x[5];", {.blocks = 2, .threads = 1}) ==
        "kernel f, block (1,0,0), thread (0,0,0): reads global x[5], which thread (0,0,0) of block (0,0,0) has "
        "written, and nothing orders the two");
  CHECK(run("EXTENT(x, 64); if (blockIdx.x == 1) x[5] = 1; else x[0] = x[5];", {.blocks = 2, .threads = 1}) ==
        "kernel f, block (1,0,0), thread (0,0,0): writes global x[5], which thread (0,0,0) of block (0,0,0) has read, "
        "and nothing orders the two");
  CHECK(run("EXTENT(x, 64); x[1 + blockIdx.x] = x[0];", {.blocks = 3, .threads = 1}) == "");
  CHECK(run("EXTENT(x, 64); const float y = x[0]; __syncthreads(); if (blockIdx.x == 2) x[0] = y;",
            {.blocks = 3, .threads = 1}) != "");
}

TEST_CASE("atomic operations order nothing without a fence, and do not excuse plain accesses") {
  CHECK(run("EXTENT(x, 64); if (blockIdx.x == 0) x[5] = 1; atomicAdd(&x[0], 1.0f); if (blockIdx.x == 1) x[1] = x[5];",
            {.blocks = 2, .threads = 1}) != "");
  CHECK(run("EXTENT(x, 64); if (blockIdx.x == 0) x[5] = 1; __threadfence(); atomicAdd(&x[0], 1.0f); if (blockIdx.x == "
            "1) x[1] = x[5];",
            {.blocks = 2, .threads = 1}) == "");
  CHECK(run("EXTENT(x, 64); atomicAdd(&x[0], 1.0f); if (i == 3) x[1] = x[0];") ==
        "kernel f, block (0,0,0), thread (4,0,0): writes global x[0], which thread (3,0,0) has read, and no barrier in "
        "between orders the two");
}

TEST_CASE("shared memory that no thread of the block has written") {
  CHECK(run("SHARED(float, a, 4); if (blockIdx.x == 0) a[i] = 1; x[4 * blockIdx.x + i] = a[i];",
            {.blocks = 2, .threads = 4}) ==
        "kernel f, block (1,0,0), thread (0,0,0): reads shared a[0], which no thread of the block has written");
}

TEST_CASE("too much shared memory, misaligned vectors, launches that cannot be") {
  CHECK(run("SHARED(float, a, 10000); SHARED(float, b, 10000); a[i] = b[i] = 1;") ==
        "kernel f, block (0,0,0), thread (0,0,0): shared array b brings the block to 80000 bytes of shared memory; it "
        "has 49152");
  CHECK(run("EXTENT(x, 64); const float4 y = pointer_cast<const float4>(x + 1)[0];") ==
        "kernel f, block (0,0,0), thread (0,0,0): global x[1] is not aligned to 16 bytes, as the type that it is cast "
        "to wants");
  CHECK(run("", {.threads = 1025}) == "a block of 1025 x 1 x 1 threads; at most 1024 fit, 64 of them along z");
  CHECK(run("", {.threads = 0}) == "a launch without threads");
}

TEST_CASE("an argument that points nowhere") {
  const EmulatedKernel kernel("(Global<float> x, Global<float> y) { if (y) y[0] = 1; }");
  CHECK(kernel({}, std::uint64_t{12345}, std::uint64_t{0}) ==
        "kernel f: parameter 0 is 0x3039, which is no device memory");
  CHECK(kernel({}, floats(), std::uint64_t{0}) == "");
}

TEST_CASE("after a failure the device goes on") {
  CHECK(run("__syncthreads(); x[64] = 1;", {.threads = 256}) != "");
  CHECK(run("SHARED(float, a, 32); a[i] = 1; __syncthreads(); x[i] = a[31 - i];") == "");
}
