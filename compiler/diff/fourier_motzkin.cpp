#include "compiler/diff/fourier_motzkin.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/support/error.h"

namespace moxie {
namespace {

/// value >= 0, made from the rows of the given system with these numbers.
struct Row {
  Affine value;
  std::set<std::size_t> history;
};

/// Divides by the common divisor of the coefficients; the constant is rounded down, since all symbols are integers.
Affine tightened(const Affine& row) {
  std::int64_t divisor = 0;
  for (const auto& term : row.terms()) divisor = std::gcd(divisor, term.second);
  if (divisor <= 1) return row;
  Affine result(floor_div(row.constant(), divisor));
  for (const auto& [symbol, coefficient] : row.terms()) result += Affine(symbol) * (coefficient / divisor);
  return result;
}

/// Of parallel rows only the one with the smallest constant counts. Rows that always hold go.
void add_row(std::vector<Row>& rows, Row row) {
  row.value = tightened(row.value);
  if (row.value.is_constant() && row.value.constant() >= 0) return;
  const auto parallel =
      std::ranges::find_if(rows, [&](const Row& other) { return other.value.terms() == row.value.terms(); });
  if (parallel == rows.end()) return rows.push_back(std::move(row));
  const auto better = [](const Row& a, const Row& b) {
    if (a.value.constant() != b.value.constant()) return a.value.constant() < b.value.constant();
    return a.history.size() < b.history.size();
  };
  if (better(row, *parallel)) *parallel = std::move(row);
}

Range range_from(Symbol variable, const std::vector<Row>& lows, const std::vector<Row>& highs) {
  Range range;
  for (const Row& row : lows) {
    const std::int64_t c = row.value.coefficient(variable);
    range.lows.push_back({c, Affine(variable) * c - row.value});
  }
  for (const Row& row : highs) {
    const std::int64_t c = row.value.coefficient(variable);
    range.highs.push_back({-c, row.value - Affine(variable) * c});
  }
  return range;
}

/// Removes `variable` from `rows` and returns its range. A row made from more than `eliminated` + 1 of the given rows
/// is redundant (Chernikov; Kohler).
Range eliminate_one(Symbol variable, std::size_t eliminated, std::vector<Row>& rows) {
  std::vector<Row> lows, highs, result;
  for (Row& row : rows) {
    const std::int64_t c = row.value.coefficient(variable);
    if (c == 0)
      add_row(result, std::move(row));
    else
      (c > 0 ? lows : highs).push_back(std::move(row));
  }
  if (lows.empty() || highs.empty())
    throw CompileError("an index of a sum has no bound on one side, so that the sum cannot be inverted");
  for (const Row& low : lows) {
    for (const Row& high : highs) {
      Row row{low.value * -high.value.coefficient(variable) + high.value * low.value.coefficient(variable),
              low.history};
      row.history.insert(high.history.begin(), high.history.end());
      if (row.history.size() <= eliminated + 1) add_row(result, std::move(row));
    }
  }
  rows = std::move(result);
  return range_from(variable, lows, highs);
}

}  // namespace

Elimination eliminate(const std::vector<Symbol>& variables, const std::vector<Affine>& inequalities) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < inequalities.size(); ++i) add_row(rows, {inequalities[i], {i}});
  Elimination result;
  result.ranges.resize(variables.size());
  for (std::size_t k = variables.size(); k-- > 0;) {
    result.ranges[k] = eliminate_one(variables[k], variables.size() - k, rows);
  }
  for (const Row& row : rows) (row.history.size() == 1 ? result.given : result.derived).push_back(row.value);
  return result;
}

std::vector<Affine> rows_of(Symbol index, const Range& range) {
  std::vector<Affine> rows;
  for (const Bound& low : range.lows) rows.push_back(Affine(index) * low.divisor - low.value);
  for (const Bound& high : range.highs) rows.push_back(high.value - Affine(index) * high.divisor);
  return rows;
}

}  // namespace moxie
