#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/support/error.h"

namespace moxie {
namespace {

/// A number below `bound`, each equally likely. (std::uniform_int_distribution differs between libraries.)
std::size_t draw_below(std::size_t bound, std::mt19937_64& random) {
  const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound: draws below it would favour small numbers
  for (;;) {
    const std::uint64_t draw = random();
    if (draw >= rejected) return draw % bound;
  }
}

std::size_t share_of(std::size_t count, double share) {
  const auto rows = static_cast<std::size_t>(static_cast<double>(count) * share);
  return std::max<std::size_t>(rows, 1);
}

}  // namespace

Samples select_rows(const Samples& samples, std::span<const std::size_t> rows) {
  Samples out{Matrix(rows.size(), samples.x.columns), Matrix(rows.size(), samples.y.columns)};
  for (const auto& [name, texts] : samples.labels.kept) out.labels.kept.emplace_back(name, std::vector<std::string>());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::ranges::copy(samples.x.row(rows[i]), out.x.row(i).begin());
    std::ranges::copy(samples.y.row(rows[i]), out.y.row(i).begin());
    out.labels.numbers.push_back(samples.labels.numbers.empty() ? rows[i] + 1 : samples.labels.numbers[rows[i]]);
    for (std::size_t k = 0; k < out.labels.kept.size(); ++k)
      out.labels.kept[k].second.push_back(samples.labels.kept[k].second[rows[i]]);
  }
  return out;
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t left = count; left > 1; --left) std::swap(order[left - 1], order[draw_below(left, random)]);
  return order;
}

RowSplit ordered_split(std::size_t count, std::size_t train) {
  RowSplit split{std::vector<std::size_t>(train), std::vector<std::size_t>(count - train)};
  std::iota(split.train.begin(), split.train.end(), std::size_t{0});
  std::iota(split.test.begin(), split.test.end(), train);
  return split;
}

RowSplit random_split(std::size_t count, double test_share, std::uint64_t seed) {
  std::vector<std::size_t> order = shuffled(count, seed);
  const std::size_t train = count - std::min(count, share_of(count, test_share));
  const auto border = order.begin() + static_cast<std::ptrdiff_t>(train);
  std::sort(order.begin(), border);
  std::sort(border, order.end());
  return {{order.begin(), border}, {border, order.end()}};
}

RowSplit fold_split(std::span<const std::uint32_t> strata, std::size_t folds, std::size_t fold, std::uint64_t seed) {
  std::vector<std::size_t> order = shuffled(strata.size(), seed);
  std::ranges::stable_sort(order, {}, [&](std::size_t row) { return strata[row]; });
  std::vector<bool> is_test(strata.size());
  for (std::size_t i = fold; i < order.size(); i += folds) is_test[order[i]] = true;
  RowSplit split;
  for (std::size_t row = 0; row < strata.size(); ++row) (is_test[row] ? split.test : split.train).push_back(row);
  return split;
}

Samples draw_share(const Samples& samples, double share, std::uint64_t seed) {
  std::vector<std::size_t> rows = shuffled(samples.rows(), seed);
  rows.resize(share_of(samples.rows(), share));
  std::ranges::sort(rows);
  return select_rows(samples, rows);
}

Dataset split_samples(std::string name, const Samples& all, Encoding encoding, const RowSplit& rows,
                      double validation_share, std::uint64_t seed) {
  if (rows.train.size() < 2 || rows.test.empty())
    throw DataError(fmt::format("{}: {} training and {} test rows are too few; at least 2 and 1 are needed", name,
                                rows.train.size(), rows.test.size()));
  if (!(validation_share > 0 && validation_share < 1))
    throw DataError(fmt::format("{}: the validation share {} is not between 0 and 1", name, validation_share));
  const RowSplit inner = random_split(rows.train.size(), validation_share, seed);
  const auto rows_of = [&](const std::vector<std::size_t>& positions) {
    std::vector<std::size_t> result;
    for (const std::size_t position : positions) result.push_back(rows.train[position]);
    return result;
  };
  if (inner.train.empty())
    throw DataError(fmt::format("{}: the validation share {} leaves no rows to train on", name, validation_share));
  return {std::move(name), select_rows(all, rows_of(inner.train)), select_rows(all, rows_of(inner.test)),
          select_rows(all, rows.test), std::move(encoding)};
}

}  // namespace moxie
