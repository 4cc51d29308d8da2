// Scans over two indices: values beside the same loops in C++, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "compiler/builder/builder.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

constexpr std::int64_t kRows = 5, kColumns = 4;
const std::string kHead = "dim I = 5, J = 4\nindex i:I, j:J\ninput c[I,J]\n";

std::vector<double> random_costs() {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> number(0.1, 1);
  std::vector<double> costs(kRows * kColumns);
  for (double& cost : costs) cost = number(random);
  return costs;
}

using Table = std::function<double(std::int64_t, std::int64_t)>;

/// d[i,j] = element(d, i, j), where both indices go in the given direction.
std::vector<double> table(bool rows_backwards, bool columns_backwards,
                          const std::function<double(const Table&, std::int64_t, std::int64_t)>& element) {
  std::vector<double> d(kRows * kColumns, std::nan(""));
  const Table at = [&](std::int64_t i, std::int64_t j) { return d[static_cast<std::size_t>(i * kColumns + j)]; };
  for (std::int64_t a = 0; a < kRows; ++a) {
    for (std::int64_t b = 0; b < kColumns; ++b) {
      const std::int64_t i = rows_backwards ? kRows - 1 - a : a, j = columns_backwards ? kColumns - 1 - b : b;
      d[static_cast<std::size_t>(i * kColumns + j)] = element(at, i, j);
    }
  }
  return d;
}

void check_values(const std::string& scan, const std::vector<double>& expected) {
  const Program program = parse(kHead + scan);
  INFO(print(program));
  CHECK(print(parse(print(program))) == print(program));
  const std::vector<double> found = evaluate(program, {}, {{"c", random_costs()}}).at("d");
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == doctest::Approx(expected[k]));
}

void check_refused(const std::string& scan, const char* message) {
  CHECK_THROWS_WITH_AS(verify(parse(kHead + scan)), doctest::Contains(message), Error);
}

}  // namespace

TEST_CASE("a scan over two indices takes the inner one first") {
  const std::vector<double> costs = random_costs();
  const auto c = [&](std::int64_t i, std::int64_t j) { return costs[static_cast<std::size_t>(i * kColumns + j)]; };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  SUBCASE("dynamic time warping") {
    check_values(R"(scan i, j {
  let left[i,j] = where(j > 0, d[i,j-1], inf)
  let before[i,j] = min(where(i > 0, d[i-1,j], inf), left[i,j], where(i > 0 and j > 0, d[i-1,j-1], inf))
  output d[i,j] = c[i,j] + where(i == 0 and j == 0, 0, before[i,j])
}
)",
                 table(false, false, [&](const Table& d, std::int64_t i, std::int64_t j) {
                   double before = i == 0 && j == 0 ? 0 : kInf;
                   if (j > 0) before = std::min(before, d(i, j - 1));
                   if (i > 0) before = std::min(before, d(i - 1, j));
                   if (i > 0 && j > 0) before = std::min(before, d(i - 1, j - 1));
                   return c(i, j) + before;
                 }));
  }
  SUBCASE("both indices backwards") {
    check_values(
        "scan i backwards, j backwards {\n  output d[i,j] = c[i,j] + where(i < I-1, d[i+1,j]/2, 0) + "
        "where(j < J-1, d[i,j+1]/3, 0)\n}\n",
        table(true, true, [&](const Table& d, std::int64_t i, std::int64_t j) {
          return c(i, j) + (i < kRows - 1 ? d(i + 1, j) / 2 : 0) + (j < kColumns - 1 ? d(i, j + 1) / 3 : 0);
        }));
  }
  SUBCASE("what lies up and to the right takes steeper diagonals") {
    check_values(
        "scan i, j {\n  output d[i,j] = c[i,j] + where(i > 0 and j < J-2, d[i-1,j+2]/2, 0) + "
        "where(j > 0, d[i,j-1]/3, 0)\n}\n",
        table(false, false, [&](const Table& d, std::int64_t i, std::int64_t j) {
          return c(i, j) + (i > 0 && j < kColumns - 2 ? d(i - 1, j + 2) / 2 : 0) + (j > 0 ? d(i, j - 1) / 3 : 0);
        }));
  }
  SUBCASE("sums over all that lies between, as over the splits of an interval") {
    check_values(
        "scan i backwards, j {\n  output d[i,j] = where(j <= i or i >= J, c[i,j], "
        "c[i,j] + min[k in i..j](d[i,k] + d[k+1,j]))\n}\n",
        table(true, false, [&](const Table& d, std::int64_t i, std::int64_t j) {
          if (j <= i || i >= kColumns) return c(i, j);
          double best = kInf;
          for (std::int64_t k = i; k < j; ++k) best = std::min(best, d(i, k) + d(k + 1, j));
          return c(i, j) + best;
        }));
  }
}

TEST_CASE("a scan over two indices may have further axes, and names what it cannot do") {
  CHECK_NOTHROW(
      verify(parse(kHead + "index n:3\nscan i, j {\n  let d[i,j,n] = c[i,j] + where(i > 0, d[i-1,j,n], 0)\n}\n"
                           "output y = sum[i,j,n](d[i,j,n])\n")));
  CHECK_NOTHROW(verify(parse(kHead + "index diagonal:3\nscan i, j {\n  let d[i,j,diagonal] = c[i,j]*diagonal\n}\n"
                                     "output y = sum[i,j,diagonal](d[i,j,diagonal])\n")));
  check_refused("scan i, j {\n  let d[i] = c[i,0]\n}\n", "`d` does not have `j` as its second axis");
  check_refused("scan i, j {\n  let d[i,j] = c[i,j] + where(i < I-1, d[i+1,j], 0)\n}\n",
                "`d` reads `d[i+1,j]`, which the scan computes later");
  check_refused("scan i, j {\n  let d[i,j] = c[i,j] + where(j < J-1, d[i,j+1], 0)\n}\n",
                "`d` reads `d[i,j+1]`, which the scan computes later");
  check_refused("scan i, j {\n  let d[i,j] = c[i,j] + d[i-1,j]\n}\n",
                "definition `d` (line 5): subscript i-1 of `d[i-1,j]` can leave 0..I");
  check_refused("scan i, j {\n  let d[i,j] = c[i,j] + where(i > 0, d[i-1,J-1], 0)\n}\n",
                "`d` reads in `d[i-1,J-1]` an element that the scan over `i` and `j` need not have computed: all "
                "elements with the same i + j are computed at once");
  check_refused("scan i, j recompute every 2 {\n  let d[i,j] = c[i,j]\n}\n", "kept whole");
  check_refused("scan i, j {\n  recompute d[i,j] = c[i,j]\n}\n", "kept whole");
}

TEST_CASE("a scan over two indices in C++ is the same Program") {
  Program p("p");
  const Dim I = p.dim("I", 5), J = p.dim("J", 4);
  const Index i(I, "i"), j(J, "j");
  const Tensor c = p.input("c", {I, J});
  const Tensor d("d", 2);
  p.scan({i, backwards}, j, [&](ScanBody& step) {
    step.output("d", {i, j}, c(i, j) + where(i < I - 1, d(i + 1, j), 0) + where(j > 0, d(i, j - 1), 0));
  });
  Program text = parse(kHead +
                       "scan i backwards, j {\n  output d[i,j] = c[i,j] + where(i < I-1, d[i+1,j], 0) + "
                       "where(j > 0, d[i,j-1], 0)\n}\n");
  CHECK(p.definitions[0].body == text.definitions[0].body);
  CHECK(p.definitions[1].body == text.definitions[1].body);
}
