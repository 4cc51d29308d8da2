#include "tools/commands/bench_yardsticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace moxie {
namespace {

constexpr std::size_t kBytes = std::size_t{128} << 20;  // far more than any cache holds
constexpr int kCopies = 7;

double copy_seconds(std::vector<std::byte>& to, const std::vector<std::byte>& from, int threads) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t part = kBytes / static_cast<std::size_t>(threads);
  std::vector<std::jthread> workers;
  for (int k = 1; k < threads; ++k) {
    const std::size_t begin = part * static_cast<std::size_t>(k);
    workers.emplace_back([&to, &from, begin, part] { std::memcpy(to.data() + begin, from.data() + begin, part); });
  }
  std::memcpy(to.data(), from.data(), part);
  workers.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t extent_of(const std::vector<Affine>& axes, const DimValues& dims) {
  std::int64_t extent = 1;
  for (const Affine& axis : axes) extent *= axis.evaluate([&](Symbol dim) { return dims.find(dim.name())->second; });
  return extent;
}

void add_product(Program& program, std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  const std::string number = std::to_string(program.definitions.size());
  const std::string left = "left" + number, right = "right" + number;
  program.inputs.push_back({left, program.default_dtype, {batch, rows, depth}});
  program.inputs.push_back({right, program.default_dtype, {batch, depth, columns}});
  const Symbol b = Symbol::axis(0), i = Symbol::axis(1), j = Symbol::axis(2), k = Symbol::fresh();
  const Expr product = tensor_access(left, {b, i, k}) * tensor_access(right, {b, k, j});
  program.definitions.push_back(
      {"product" + number,
       program.default_dtype,
       {{"b", batch, Range::extent(batch)}, {"i", rows, Range::extent(rows)}, {"j", columns, Range::extent(columns)}},
       reduce(ReduceKind::Sum, k, Range::extent(depth), product),
       true});
}

}  // namespace

double copy_bandwidth(int threads) {
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes, std::byte{0});
  double best = copy_seconds(to, from, threads);
  for (int k = 1; k < kCopies; ++k) best = std::min(best, copy_seconds(to, from, threads));
  return 2 * static_cast<double>(kBytes) / best;
}

Program products_alone(const Plan& plan, const DimValues& dims) {
  Program program("products");
  program.default_dtype = plan.program.default_dtype;
  for (const PlanStep& step : plan.steps) {
    for (const MatrixProduct* product : products_of(step)) {
      add_product(program, extent_of(product->batch, dims), extent_of(product->rows, dims),
                  extent_of(product->columns, dims), extent_of(product->depth, dims));
    }
  }
  return program;
}

}  // namespace moxie
