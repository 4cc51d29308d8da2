// Conditions on indices are known in most rounds of a loop whose range is split where they change.
#include "compiler/loop/split_ranges.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/fuse/fuse.h"
#include "compiler/loop/interpreter.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

namespace {

LoweredKernel lowered(const std::string& text) {
  const std::vector<std::string> left_out = {"drop-known-conditions"};  // so that there are some to be found
  const FusedProgram fused =
      fuse(optimise(specialise(parse(text), {}), {}, left_out), Products::library, Layouts::row_major);
  REQUIRE(fused.steps.size() == 1);
  return lower(fused, std::get<Kernel>(fused.steps[0]));
}

std::int64_t elements(const BufferDecl& buffer) {
  std::int64_t count = 1;
  for (const Affine& extent : buffer.shape) count *= extent.constant();
  return count;
}

/// What the kernel writes, computed in pieces that end at `ends`.
std::vector<double> outputs(const LoweredKernel& kernel, const std::vector<std::int64_t>& ends) {
  std::vector<std::vector<double>> data;
  for (const BufferDecl& buffer : kernel.program.buffers) {
    std::vector<double> values(static_cast<std::size_t>(elements(buffer)), -1);
    if (!buffer.written)
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = std::sin(static_cast<double>(k));
    data.push_back(std::move(values));
  }
  std::vector<std::span<double>> buffers(data.begin(), data.end());
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    std::vector<std::int64_t> arguments;
    for (const std::string& name : kernel.program.arguments)
      arguments.push_back(name == argument::kTileLow ? begin : name == argument::kTileHigh ? end : 0);
    interpret(kernel.program, buffers, arguments);
    begin = end;
  }
  std::vector<double> result;
  for (std::size_t k = 0; k < data.size(); ++k)
    if (kernel.program.buffers[k].written) result.insert(result.end(), data[k].begin(), data[k].end());
  return result;
}

struct Count {
  int loops = 0, guards = 0, tests = 0;
};

Count count(const LoopProgram& program, const Block& block) {
  Count total;
  for (const Statement& statement : block) {
    if (const auto* loop = std::get_if<stmt::For>(&statement)) {
      const Count inside = count(program, loop->body);
      total = {total.loops + 1 + inside.loops, total.guards + inside.guards, total.tests + inside.tests};
    }
    const auto* let = std::get_if<stmt::Let>(&statement);
    if (!let) continue;
    const Value& value = program.values[let->id];
    const auto* load = std::get_if<op::Load>(&value.operation);
    total.guards += load && load->guard ? 1 : 0;
    total.tests += value.type == ValueType::truth ? 1 : 0;
  }
  return total;
}

/// The loops that stand in no other.
std::vector<const stmt::For*> outer_loops(const LoopProgram& program) {
  std::vector<const stmt::For*> loops;
  for (const Statement& statement : program.body)
    if (const auto* loop = std::get_if<stmt::For>(&statement)) loops.push_back(loop);
  return loops;
}

/// Of these, the one over most rounds.
const stmt::For& longest(const LoopProgram& program) {
  const auto constant_in = [](const std::vector<Bound>& bounds, std::int64_t otherwise) {
    const auto found = std::ranges::find_if(bounds, [](const Bound& bound) { return bound.value.is_constant(); });
    return found == bounds.end() ? otherwise : found->value.constant();
  };
  return *std::ranges::max(outer_loops(program), {}, [&](const stmt::For* loop) {
    return constant_in(loop->range.highs, 99) - constant_in(loop->range.lows, 0);
  });
}

/// The same values in pieces and as a whole; the kernel with its ranges split.
LoweredKernel split(const std::string& text) {
  const LoweredKernel before = lowered(text);
  LoweredKernel after = before;
  split_ranges(after);
  verify(after.program);
  REQUIRE(before.tiles.has_value());
  const std::int64_t extent = before.tiles->range.highs[0].value.constant() + 1;
  const std::vector<double> want = outputs(before, {extent});
  for (const auto& ends : std::vector<std::vector<std::int64_t>>{{extent}, {16, extent}, {16, 48, extent}})
    CHECK(outputs(after, ends) == want);
  return after;
}

}  // namespace

TEST_CASE("a stencil tests its border in the first and the last lanes alone") {
  const LoweredKernel kernel = split(
      "dim N = 100\nindex i:N\ninput x[N]\n"
      "output y[i] = where(i >= 1 and i < N-1, x[i-1] - 2*x[i] + x[i+1], x[i])\n");
  CHECK(outer_loops(kernel.program).size() == 3);
  const Count inside = count(kernel.program, longest(kernel.program).body);
  CHECK(inside.guards == 0);
  CHECK(inside.tests == 0);
  CHECK(count(kernel.program, kernel.program.body).guards > 0);
}

TEST_CASE("a periodic neighbour is the next element in all but one round") {
  const LoweredKernel kernel = split("dim N = 100\nindex i:N\ninput x[N]\noutput y[i] = x[(i+1)%N] - x[(i+N-1)%N]\n");
  CHECK(outer_loops(kernel.program).size() == 3);
  CHECK(count(kernel.program, longest(kernel.program).body).tests == 0);
}

TEST_CASE("a causal convolution tests where its taps begin") {
  const LoweredKernel kernel = split(
      "dim T = 90\nindex t:T, k:3\ninput x[T], w[3]\n"
      "output y[t] = sum[k](where(t-4*k >= 0, w[k]*x[t-4*k], 0))\n");
  CHECK(outer_loops(kernel.program).size() == 2);
  CHECK(count(kernel.program, longest(kernel.program).body).tests == 0);
}

TEST_CASE("conditions that never or always hold are gone") {
  const std::string text =
      "dim N = 80, M = 12\nindex i:N, j:M\ninput x[N,M]\n"
      "output y[i] = sum[j](where(i + j > 200, x[i,j], where(2*i - j >= -20, x[i,j]^2, 0)))\n";
  const LoweredKernel before = lowered(text);
  REQUIRE(count(before.program, before.program.body).tests > 0);
  const LoweredKernel after = split(text);
  CHECK(count(after.program, after.program.body).tests == 0);
  CHECK(outer_loops(after.program).size() == 1);
}

TEST_CASE("comparisons in every direction, and of negated indices, are known where they hold for all") {
  for (const char* condition : {"i < 7", "i <= 7", "i > 7", "i >= 7", "i == 7", "i != 7", "0 - i < -7", "7 - 2*i <= 0",
                                "i > 90", "i == 99", "0 - 3*i == -9", "i < 7 or i > 90", "not(i >= 3 and i < 95)"}) {
    CAPTURE(std::string(condition));
    const LoweredKernel kernel = split("dim N = 100\nindex i:N\ninput x[N], z[N]\noutput y[i] = where(" +
                                       std::string(condition) + ", x[i]*z[i], x[i] + z[i])\n");
    CHECK(outer_loops(kernel.program).size() > 1);
    CHECK(count(kernel.program, longest(kernel.program).body).tests == 0);
  }
}

TEST_CASE("of a short loop around others the borders are parts, too, and of two iterations each") {
  for (const int tiles : {2, 4}) {
    CAPTURE(tiles);
    const LoweredKernel kernel =
        split("dim N = " + std::to_string(tiles) +
              "\nindex s:64, i:N, v:16, k:20\ninput x[64,4*N+10], w[20,16]\n"
              "output y[s,i,v] = sum[k](where(4*i + k >= 3 and 4*i + k < 4*N + 13, w[k,v]*x[s,4*i+k-3], 0))\n");
    const Count whole = count(kernel.program, kernel.program.body);
    CHECK(whole.guards == 0);
    CHECK(whole.tests == 0);
  }
}

TEST_CASE("what an index of another loop decides stays a test, and short loops stay whole") {
  const LoweredKernel other = split(
      "dim N = 64, M = 6\nindex i:N, j:M\ninput x[N,M]\noutput y[i] = sum[j](where(10*j != i, x[i,j], x[i,j]^2))\n");
  CHECK(outer_loops(other.program).size() == 1);
  const LoweredKernel small =
      split("dim N = 50, M = 4\nindex i:N, j:M\ninput x[N,M]\noutput y[i] = sum[j](where(j == 1, x[i,j], x[i,j]^2))\n");
  CHECK(outer_loops(small.program).size() == 1);
}

TEST_CASE("comparisons of sums beyond 64 bits are tests, and split no loop") {
  LoweredKernel kernel = lowered(
      "dim T = 64, R = 1500\nindex t:T, r:R, q:R\ninput x[T,R]\n"
      "output y[t,r,q] = where(t + 4503599627370495*r + 4503599627370495*q < 5, x[t,r]*x[t,q], x[t,q])\n");
  const Count before = count(kernel.program, kernel.program.body);
  REQUIRE(before.tests > 0);
  split_ranges(kernel);
  const Count after = count(kernel.program, kernel.program.body);
  CHECK(after.tests == before.tests);
  CHECK(after.loops == before.loops);
}

TEST_CASE("a guard of which a condition on all lanes is left is that one") {
  const LoweredKernel kernel = split(
      "dim M = 8, N = 100\nindex m:M, n:N\ninput x[M,N]\n"
      "output y[m,n] = where(m >= 1 and n >= 1, x[m-1,n-1], 0)\n");
  const LoopProgram& program = kernel.program;
  int guards = 0;
  const std::function<void(const Block&)> look = [&](const Block& block) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement)) look(loop->body);
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* load = let ? std::get_if<op::Load>(&program.values[let->id].operation) : nullptr;
      if (!load || !load->guard) continue;
      ++guards;
      CHECK_FALSE(program.values[*load->guard].varying);
    }
  };
  look(longest(program).body);
  CHECK(guards == 1);
}

TEST_CASE("a branch that no lane takes is not computed") {
  const LoweredKernel kernel = split(
      "dim N = 100\nindex i:N\ninput x[N]\noutput y[i] = x[i] + where(i == 0, x[i+99]*x[i+98], 0) + where(i >= 99, 3, "
      "0)\n");
  const Count inside = count(kernel.program, longest(kernel.program).body);
  CHECK(inside.guards == 0);
  CHECK(inside.tests == 0);
}

TEST_CASE("of two loops whose parts would be too many the inner one has parts") {
  const auto periodic = [](int terms) {
    std::string text = "dim M = 64, N = 100\nindex m:M, n:N\ninput x[M,N]\noutput y[m,n] = x[m,n]";
    for (int k = 1; k <= terms; ++k)
      for (const int row : {1, 2, 3, 4}) text += fmt::format(" + x[(m+{})%M,(n+{})%N]", row, k);
    return text + "\n";
  };
  // How many parts the outer loop has, and all loops together.
  const auto loops_of = [](const LoweredKernel& kernel) {
    verify(kernel.program);
    return std::pair(outer_loops(kernel.program).size(), count(kernel.program, kernel.program.body).loops);
  };
  for (const auto& [terms, outer_parts] : {std::pair<int, std::size_t>{1, 2}, {30, 1}}) {
    CAPTURE(terms);
    LoweredKernel kernel = lowered(periodic(terms));
    const auto [outer_before, all_before] = loops_of(kernel);
    REQUIRE(outer_before == 1);
    split_ranges(kernel);
    const auto [outer, all] = loops_of(kernel);
    CHECK(outer == outer_parts);
    CHECK(all > all_before);
  }
}
