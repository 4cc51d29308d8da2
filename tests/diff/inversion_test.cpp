// The inversion of accesses against plain enumeration, exactly, on thousands of random systems.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "compiler/diff/inversion.h"
#include "compiler/diff/smith.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

using Point = std::vector<std::int64_t>;
using Environment = std::map<Symbol, std::int64_t>;

struct RandomSystem {
  std::vector<Symbol> variables;
  Point extents;
  IterationDomain domain;
  std::vector<Equation> equations;
};

std::int64_t at(const Affine& affine, const Environment& environment) {
  return affine.evaluate([&](Symbol symbol) { return environment.at(symbol); });
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

  /// Boxes of one to four indices, some with triangular bounds, some with a guard that is an inequality or an equation.
  RandomSystem system() {
    RandomSystem result;
    const auto count = static_cast<std::size_t>(between(1, 4));
    for (std::size_t k = 0; k < count; ++k) add_variable(result);
    result.domain.variables = result.variables;
    if (chance(0.3))
      result.domain.nonnegative.push_back(combination(result.variables, {-1, 0, 1}) + Affine(between(0, 3)));
    if (chance(0.15))
      result.domain.zero.push_back(combination(result.variables, {-1, 0, 0, 1, 2}) + Affine(between(-1, 1)));
    const auto rank = static_cast<std::uint32_t>(between(0, 3));
    for (std::uint32_t i = 0; i < rank; ++i) {
      const Affine subscript = combination(result.variables, {0, 0, 1, 1, -1, 2, -2, 3}) + Affine(between(-3, 3));
      result.equations.push_back({subscript, Symbol::axis(i)});
    }
    return result;
  }

 private:
  Affine combination(const std::vector<Symbol>& symbols, const Point& coefficients) {
    Affine result;
    for (const Symbol symbol : symbols) {
      result += Affine(symbol) *
                coefficients[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(coefficients.size()) - 1))];
    }
    return result;
  }

  void add_variable(RandomSystem& system) {
    const Symbol variable = Symbol::fresh();
    const std::int64_t extent = between(1, 5);
    system.domain.nonnegative.push_back(Affine(variable));
    system.domain.nonnegative.push_back(Affine(extent - 1) - Affine(variable));
    if (!system.variables.empty() && chance(0.3)) {
      const Symbol other =
          system
              .variables[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(system.variables.size()) - 1))];
      system.domain.nonnegative.push_back(Affine(variable) * between(1, 2) - Affine(other) + Affine(between(-1, 1)));
    }
    system.variables.push_back(variable);
    system.extents.push_back(extent);
  }

  std::mt19937 random_;
};

bool holds(const IterationDomain& domain, const Environment& environment) {
  return std::ranges::all_of(domain.nonnegative, [&](const Affine& row) { return at(row, environment) >= 0; }) &&
         std::ranges::all_of(domain.zero, [&](const Affine& row) { return at(row, environment) == 0; });
}

/// Every point of the domain, by the element it reads.
std::map<Point, std::multiset<Point>> enumerate(const RandomSystem& system) {
  std::map<Point, std::multiset<Point>> readers;
  Environment environment;
  const std::function<void(std::size_t)> walk = [&](std::size_t k) {
    if (k < system.variables.size()) {
      for (std::int64_t i = 0; i < system.extents[k]; ++i) {
        environment[system.variables[k]] = i;
        walk(k + 1);
      }
      return;
    }
    if (!holds(system.domain, environment)) return;
    Point element, point;
    for (const Equation& equation : system.equations) element.push_back(at(equation.left, environment));
    for (const Symbol variable : system.variables) point.push_back(environment[variable]);
    readers[element].insert(point);
  };
  walk(0);
  return readers;
}

/// Runs the loops of a preimage as generated code would.
std::multiset<Point> run(const Preimage& preimage, Environment environment) {
  std::multiset<Point> points;
  const auto all_hold = [&](const std::vector<Affine>& rows) {
    return std::ranges::all_of(rows, [&](const Affine& row) { return at(row, environment) >= 0; });
  };
  std::vector<SumLoop> loops = preimage.quotients;
  loops.insert(loops.end(), preimage.loops.begin(), preimage.loops.end());
  const std::function<void(std::size_t)> walk = [&](std::size_t k) {
    if (k == preimage.quotients.size() && !all_hold(preimage.inner_nonnegative)) return;
    if (k == loops.size()) {
      Point point;
      for (const auto& [variable, value] : preimage.point) point.push_back(at(value, environment));
      points.insert(point);
      return;
    }
    std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
    for (const Bound& bound : loops[k].range.lows)
      low = std::max(low, ceil_div(at(bound.value, environment), bound.divisor));
    for (const Bound& bound : loops[k].range.highs)
      high = std::min(high, floor_div(at(bound.value, environment), bound.divisor));
    for (std::int64_t i = low; i <= high; ++i) {
      environment[loops[k].index] = i;
      walk(k + 1);
    }
  };
  const bool solvable =
      std::ranges::all_of(preimage.zero, [&](const Affine& row) { return at(row, environment) == 0; });
  if (solvable && all_hold(preimage.nonnegative)) walk(0);
  return points;
}

/// All elements in a box a little larger than what is read.
std::vector<Point> elements_around(const std::map<Point, std::multiset<Point>>& readers, std::size_t rank) {
  std::vector<Point> elements{{}};
  for (std::size_t k = 0; k < rank; ++k) {
    std::int64_t low = 0, high = 0;
    for (const auto& [element, points] : readers) {
      low = std::min(low, element[k]);
      high = std::max(high, element[k]);
    }
    std::vector<Point> longer;
    for (const Point& element : elements) {
      for (std::int64_t i = low - 2; i <= high + 2; ++i) {
        longer.push_back(element);
        longer.back().push_back(i);
      }
    }
    elements = std::move(longer);
  }
  return elements;
}

IntMatrix times(const IntMatrix& a, const IntMatrix& b) {
  IntMatrix result(a.rows(), b.cols());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < b.cols(); ++j) {
      for (std::size_t k = 0; k < a.cols(); ++k) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

/// By expansion along the first row.
std::int64_t determinant(const IntMatrix& m) {
  if (m.rows() == 0) return 1;
  std::int64_t sum = 0;
  for (std::size_t skip = 0; skip < m.cols(); ++skip) {
    IntMatrix minor(m.rows() - 1, m.cols() - 1);
    for (std::size_t i = 1; i < m.rows(); ++i) {
      for (std::size_t j = 0, to = 0; j < m.cols(); ++j) {
        if (j != skip) minor(i - 1, to++) = m(i, j);
      }
    }
    sum += (skip % 2 == 0 ? 1 : -1) * m(0, skip) * determinant(minor);
  }
  return sum;
}

}  // namespace

TEST_CASE("diagonal forms of random matrices") {
  Generator generator(11);
  for (int round = 0; round < 3000; ++round) {
    IntMatrix a(static_cast<std::size_t>(generator.between(0, 4)), static_cast<std::size_t>(generator.between(0, 4)));
    for (std::size_t i = 0; i < a.rows(); ++i) {
      for (std::size_t j = 0; j < a.cols(); ++j) a(i, j) = generator.between(-6, 6);
    }
    const SmithForm form = smith_form(a);
    REQUIRE(times(times(form.left, a), form.right) == form.diagonal);
    REQUIRE(std::abs(determinant(form.left)) == 1);
    REQUIRE(std::abs(determinant(form.right)) == 1);
    for (std::size_t i = 0; i < a.rows(); ++i) {
      for (std::size_t j = 0; j < a.cols(); ++j) {
        const bool pivot = i == j && i < form.rank;
        REQUIRE((pivot ? form.diagonal(i, j) > 0 : form.diagonal(i, j) == 0));
      }
    }
  }
}

TEST_CASE("a matrix whose form leaves 64 bits is refused") {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  IntMatrix a(2, 2);
  a(0, 0) = big, a(0, 1) = big - 1, a(1, 0) = big - 2, a(1, 1) = big - 4;
  CHECK_THROWS_AS(smith_form(a), CompileError);
  IntMatrix least(1, 1);
  least(0, 0) = std::numeric_limits<std::int64_t>::min();
  CHECK_THROWS_AS(smith_form(least), CompileError);
}

TEST_CASE("inversion finds exactly the points that read an element") {
  Generator generator(1);
  int divided = 0;
  for (int round = 0; round < 4000; ++round) {
    const RandomSystem system = generator.system();
    const Preimage preimage = invert(system.domain, system.equations, KnownRanges({}));
    divided += !preimage.quotients.empty();
    const auto readers = enumerate(system);
    for (const Point& element : elements_around(readers, system.equations.size())) {
      Environment environment;
      for (std::size_t k = 0; k < element.size(); ++k)
        environment[Symbol::axis(static_cast<std::uint32_t>(k))] = element[k];
      const auto expected = readers.find(element);
      REQUIRE(run(preimage, environment) == (expected == readers.end() ? std::multiset<Point>() : expected->second));
    }
  }
  CHECK(divided > 500);  // divisions with remainder are well covered
}

TEST_CASE("knowledge of the element's range removes guards and bounds, and nothing else") {
  Generator generator(2);
  for (int round = 0; round < 2000; ++round) {
    const RandomSystem system = generator.system();
    const auto readers = enumerate(system);
    const auto elements = elements_around(readers, system.equations.size());
    KnownRanges known({});
    for (std::size_t k = 0; k < system.equations.size(); ++k) {
      known.add(Symbol::axis(static_cast<std::uint32_t>(k)), {{{1, elements.front()[k]}}, {{1, elements.back()[k]}}});
    }
    const Preimage preimage = invert(system.domain, system.equations, known);
    for (const Point& element : elements) {
      Environment environment;
      for (std::size_t k = 0; k < element.size(); ++k)
        environment[Symbol::axis(static_cast<std::uint32_t>(k))] = element[k];
      const auto expected = readers.find(element);
      REQUIRE(run(preimage, environment) == (expected == readers.end() ? std::multiset<Point>() : expected->second));
    }
  }
}

TEST_CASE("a stride needs a division without remainder") {
  const Symbol i = Symbol::fresh();
  const IterationDomain domain{{i}, {Affine(i), Affine(2) - Affine(i)}, {}};
  const Preimage preimage = invert(domain, {{Affine(i) * 2, Symbol::axis(0)}}, KnownRanges({}));
  REQUIRE(preimage.quotients.size() == 1);
  CHECK(run(preimage, {{Symbol::axis(0), 1}}).empty());
  CHECK(run(preimage, {{Symbol::axis(0), 2}}) == std::multiset<Point>{{1}});
}

TEST_CASE("a permutation of indices is inverted without loops, guards or redundant bounds") {
  const Symbol i = Symbol::fresh(), j = Symbol::fresh();
  const Affine n = Symbol::dim("N"), m = Symbol::dim("M");
  const IterationDomain domain{
      {i, j}, {Affine(i), n - Affine(1) - Affine(i), Affine(j), m - Affine(1) - Affine(j)}, {}};
  KnownRanges known({});
  known.add(Symbol::axis(0), Range::extent(m));
  known.add(Symbol::axis(1), Range::extent(n));
  const Preimage preimage = invert(domain, {{j, Symbol::axis(0)}, {i, Symbol::axis(1)}}, known);
  CHECK(preimage.loops.empty());
  CHECK(preimage.quotients.empty());
  CHECK(preimage.zero.empty());
  CHECK(preimage.nonnegative.empty());
  CHECK(preimage.point == Replacement{{i, Symbol::axis(1)}, {j, Symbol::axis(0)}});
}

TEST_CASE("an index without a bound is refused") {
  const Symbol i = Symbol::fresh();
  CHECK_THROWS_AS(invert({{i}, {Affine(i)}, {}}, {}, KnownRanges({})), CompileError);
}
