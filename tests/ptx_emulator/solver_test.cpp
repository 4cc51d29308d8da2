// The libraries of linear algebra as the product's tables of functions have them: what they compute, and what they
// refuse.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/cuda/nvidia_driver.h"
#include "tests/skip.h"

using namespace moxie;
using namespace moxie::cuda;

namespace {

/// A context with a stream, and numbers on the device.
class SolverBench {
 public:
  explicit SolverBench(const Driver& d) : driver(d) {
    Context context = nullptr;
    REQUIRE(driver.DevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(driver.CtxSetCurrent(context) == 0);
    REQUIRE(driver.StreamCreate(&stream, 0) == 0);
  }
  ~SolverBench() {
    for (const DevicePointer block : blocks_) driver.MemFree(block);
    driver.StreamDestroy(stream);
    driver.DevicePrimaryCtxRelease(0);
  }
  SolverBench(const SolverBench&) = delete;
  SolverBench& operator=(const SolverBench&) = delete;

  template <class T>
  T* allocate(int count) {
    REQUIRE(driver.MemAlloc(&blocks_.emplace_back(), static_cast<std::size_t>(count) * sizeof(T)) == 0);
    return reinterpret_cast<T*>(blocks_.back());
  }
  double* copy(const std::vector<double>& values) {
    auto* const at = allocate<double>(static_cast<int>(values.size()));
    const std::size_t bytes = values.size() * sizeof(double);
    CHECK(driver.MemcpyHtoDAsync(reinterpret_cast<DevicePointer>(at), values.data(), bytes, stream) == 0);
    return at;
  }
  template <class T>
  std::vector<T> read(const T* from, std::size_t count) const {
    std::vector<T> values(count);
    const auto at = reinterpret_cast<DevicePointer>(from);
    CHECK(driver.MemcpyDtoHAsync(values.data(), at, count * sizeof(T), stream) == 0);
    return values;
  }

  Driver driver;
  Stream stream = nullptr;

 private:
  std::vector<DevicePointer> blocks_;
};

std::optional<Driver> driver_with_solver() {
  try {
    cusolver_version();
    return nvidia_driver();
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("the solver factors, and leaves the number of a bad pivot") {
  const auto driver = driver_with_solver();
  if (!driver) return;
  SolverBench bench(*driver);
  cusolver::Library library(toolkit_directories());
  const auto& f = library.functions<double>();
  cusolver::Context* const handle = library.handle_of(bench.stream);
  int length = 0;
  REQUIRE(f.potrf_size(handle, cusolver::kLower, 2, nullptr, 2, &length) == 0);
  auto* const work = bench.allocate<double>(length);
  auto* const info = bench.allocate<int>(1);
  double* const good = bench.copy({4, 2, 7, 10});
  CHECK(f.potrf(handle, cusolver::kLower, 2, good, 2, work, length, info) == 0);
  CHECK(bench.read(info, 1)[0] == 0);
  const std::vector<double> factor = bench.read(good, 4);
  CHECK(factor[0] == doctest::Approx(2));
  CHECK(factor[1] == doctest::Approx(1));
  CHECK(factor[3] == doctest::Approx(3));
  double* const bad = bench.copy({4, 2, 2, 1});
  CHECK(f.potrf(handle, cusolver::kUpper, 2, bad, 2, work, length, info) == 0);
  CHECK(bench.read(info, 1)[0] == 2);
}

TEST_CASE("the solver refuses strides that are too short, and workspaces that are missing or too small") {
  const auto driver = driver_with_solver();
  if (!driver) return;
  SolverBench bench(*driver);
  cusolver::Library library(toolkit_directories());
  const auto& f = library.functions<double>();
  cusolver::Context* const handle = library.handle_of(bench.stream);
  auto* const info = bench.allocate<int>(1);
  double* const a = bench.copy(std::vector<double>(9, 1.0));
  int length = 0;
  CHECK(f.potrf_size(handle, cusolver::kLower, 3, nullptr, 2, &length) != 0);
  REQUIRE(f.potrf_size(handle, cusolver::kLower, 3, nullptr, 3, &length) == 0);
  auto* const work = bench.allocate<double>(length);
  CHECK(f.potrf(handle, cusolver::kLower, 3, a, 2, work, length, info) != 0);
  CHECK(f.potrf(handle, cusolver::kLower, 3, a, 3, work, length - 1, info) != 0);
  CHECK(f.potrf(handle, cusolver::kLower, 3, a, 3, nullptr, length, info) != 0);
  CHECK_THROWS_WITH_AS(library.check(3, "K(cholesky)"), "cuSOLVER 12.0: K(cholesky): CUSOLVER_STATUS_INVALID_VALUE",
                       DeviceError);
}

TEST_CASE("triangles are solved from both sides, in both orders, and wrong strides are named") {
  const auto driver = driver_with_solver();
  if (!driver) return;
  SolverBench bench(*driver);
  const SolveTriangle solve = cublas_calls(*driver).solve_triangle;
  const auto address = [](const double* at) { return reinterpret_cast<DevicePointer>(at); };
  // Columns of L = (2 0; 6 4), or rows of its transposed; x = (1 2; 3 4), and what becomes of it.
  const double* const l = bench.copy({2, 6, 0, 4});
  const auto solved = [&](bool right, bool upper, bool transposed, const std::vector<double>& b) {
    double* const x = bench.copy(b);
    const double* const triangle = upper ? bench.copy({2, 0, 6, 4}) : l;
    solve(DType::f64, {right, upper, transposed, 2, 2, address(triangle), address(x), 2, 2}, bench.stream);
    return bench.read(x, 4);
  };
  const std::vector<double> x = {1, 3, 2, 4};
  CHECK(solved(false, false, false, {2, 18, 4, 28}) == x);
  CHECK(solved(false, false, true, {20, 12, 28, 16}) == x);
  CHECK(solved(true, false, false, {14, 30, 8, 16}) == x);
  CHECK(solved(true, false, true, {2, 6, 14, 34}) == x);
  CHECK(solved(false, true, false, {20, 12, 28, 16}) == x);
  CHECK(solved(false, true, true, {2, 18, 4, 28}) == x);
  CHECK(solved(true, true, false, {2, 6, 14, 34}) == x);
  CHECK(solved(true, true, true, {14, 30, 8, 16}) == x);
  CHECK_THROWS_WITH_AS(solve(DType::f64, {false, false, false, 2, 2, address(l), address(l), 1, 2}, bench.stream),
                       "cuBLAS 13.0: a triangular solve of [2,2] in f64 failed: CUBLAS_STATUS_INVALID_VALUE",
                       DeviceError);
}
