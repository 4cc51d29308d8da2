#include "runtime/cpu/ordered_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "compiler/expression/dtype.h"
#include "runtime/cpu/limited_counts.h"
#include "runtime/cpu/sort_entries.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

template <class T, class Out>
class OrderedRowSums {
 public:
  OrderedRowSums(const OrderedSumCall& call, const OrderedSumShape& shape, const OrderedMemory& memory)
      : call_(call),
        shape_(shape),
        key_(static_cast<const T*>(memory.key)),
        query_(static_cast<const T*>(memory.query)),
        weight_(static_cast<const T*>(memory.weight)),
        scale_(static_cast<const T*>(memory.scale)),
        out_(static_cast<Out*>(memory.out)),
        queries_(count_of(shape.queries)),
        outer_queries_(shape.queries) {
    if (outer_queries_.empty()) return;
    inner_queries_ = outer_queries_.back();
    outer_queries_.pop_back();
  }

  void run(const OrderedPlace& row) {
    sort_keys(row);
    find_positions(row);
    for (std::int64_t sum = 0; sum < count_of(shape_.sums); ++sum) {
      const OrderedPlace at = row + place_in(shape_.sums, sum);
      if (weight_) add_up(at);
      for_each_query(at, [&](std::size_t query, const OrderedPlace& place) { store(place, positions_[query]); });
    }
  }

 private:
  /// Calls f(number, place) for all queries that see the keys of one row.
  template <class F>
  void for_each_query(const OrderedPlace& row, const F& f) const {
    std::size_t number = 0;
    for (std::int64_t outer = 0; outer < count_of(outer_queries_); ++outer) {
      const OrderedPlace first = row + place_in(outer_queries_, outer);
      for (std::int64_t k = 0; k < inner_queries_.count; ++k) f(number++, first + inner_queries_.step * k);
    }
  }

  /// Writes where `end` points and moves it on. NaN compares with nothing, and is left out.
  void add_entry(SortEntry<T>*& end, T value, std::size_t index) const {
    const SortBits<T> bits = ordered_bits(value) ^ (call_.selection.above ? ~SortBits<T>{0} : SortBits<T>{0});
    *end = {bits, static_cast<std::uint32_t>(index)};
    end += std::isnan(value) ? 0 : 1;
  }

  /// The selected keys come first. Of equal ones, those come first that a tie selects.
  void sort_keys(const OrderedPlace& row) {
    const auto count = static_cast<std::size_t>(shape_.keys);
    sorted_.resize(count + 1);
    SortEntry<T>* end = sorted_.data();
    const T* const first = key_ + row.key;
    const bool reversed = call_.selection.tie_limit && !call_.selection.tie_below;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t index = reversed ? count - 1 - k : k;
      add_entry(end, first[static_cast<std::int64_t>(index) * shape_.element.key], index);
    }
    sorted_.resize(static_cast<std::size_t>(end - sorted_.data()));
    sort_entries(sorted_, spare_);
  }

  /// Whether the queries are the keys, which are sorted already.
  bool asks_keys(const OrderedPlace& row) const {
    return key_ == query_ && row.key == row.query && shape_.queries.size() == 1 && queries_ == shape_.keys &&
           shape_.queries[0].step.query == shape_.element.key;
  }

  /// The number of keys that each query selects: keys and queries are merged, both in order.
  void find_positions(const OrderedPlace& row) {
    positions_.assign(static_cast<std::size_t>(queries_), 0);
    if (!asks_keys(row)) sort_queries(row);
    if (call_.selection.tie_limit) {
      limits_.resize(positions_.size());
      for_each_query(row, [&](std::size_t query, const OrderedPlace& place) { limits_[query] = place.limit; });
    }
    const std::span<const SortEntry<T>> keys = sorted_;
    std::size_t below = 0, equal_end = 0;
    for (const SortEntry<T>& query : asks_keys(row) ? sorted_ : asked_) {
      while (below < keys.size() && keys[below].bits < query.bits) ++below;
      equal_end = std::max(equal_end, below);
      while (equal_end < keys.size() && keys[equal_end].bits == query.bits) ++equal_end;
      std::size_t position = call_.selection.with_equal ? equal_end : below;
      if (call_.selection.tie_limit) position = below + count_tied(keys.subspan(below, equal_end - below), query.index);
      positions_[query.index] = static_cast<std::uint32_t>(position);
    }
  }

  void sort_queries(const OrderedPlace& row) {
    asked_.resize(positions_.size() + 1);
    SortEntry<T>* end = asked_.data();
    for_each_query(row,
                   [&](std::size_t query, const OrderedPlace& place) { add_entry(end, query_[place.query], query); });
    asked_.resize(static_cast<std::size_t>(end - asked_.data()));
    sort_entries(asked_, spare_);
  }

  /// How many of the keys that equal a query it selects.
  std::size_t count_tied(std::span<const SortEntry<T>> equal, std::uint32_t query) const {
    const std::int64_t limit = limits_[query];
    const auto is_selected = [&](const SortEntry<T>& key) {
      return (static_cast<std::int64_t>(key.index) < limit) == call_.selection.tie_below;
    };
    return static_cast<std::size_t>(std::ranges::partition_point(equal, is_selected) - equal.begin());
  }

  /// sums_[k]: of the first k weights in the order of the keys.
  void add_up(const OrderedPlace& at) {
    const T* const first = weight_ + at.weight;
    sums_.resize(sorted_.size() + 1);
    double sum = sums_[0] = 0;
    for (std::size_t k = 0; k < sorted_.size(); ++k)
      sums_[k + 1] = sum += static_cast<double>(first[sorted_[k].index * shape_.element.weight]);
    first_harmless_ = call_.weight.multiplies_zeros ? first_harmless(first) : 0;
  }

  /// The lowest position from which on no unselected weight is infinite or NaN.
  std::size_t first_harmless(const T* first) const {
    const auto is_finite = [&](std::int64_t index) { return std::isfinite(first[index * shape_.element.weight]); };
    if (sorted_.size() < static_cast<std::size_t>(shape_.keys)) {  // what NaN selects is never selected
      std::vector<bool> is_sorted(static_cast<std::size_t>(shape_.keys));
      for (const SortEntry<T>& entry : sorted_) is_sorted[entry.index] = true;
      for (std::int64_t k = 0; k < shape_.keys; ++k) {
        if (!is_sorted[static_cast<std::size_t>(k)] && !is_finite(k)) return std::numeric_limits<std::size_t>::max();
      }
    }
    std::size_t position = sorted_.size();
    while (position > 0 && is_finite(sorted_[position - 1].index)) --position;
    return position;
  }

  void store(const OrderedPlace& at, std::uint32_t position) const {
    const double scale = scale_ ? static_cast<double>(scale_[at.scale]) : 1;
    double value = 0;
    if (position > 0) value = call_.coefficient * scale * (weight_ ? sums_[position] : static_cast<double>(position));
    const bool spoilt = (weight_ && position < first_harmless_) ||
                        (call_.scale.multiplies_zeros && position < shape_.keys && !std::isfinite(scale));
    if (call_.most) value = std::min(value, static_cast<double>(*call_.most));
    if (spoilt) value = std::numeric_limits<double>::quiet_NaN();
    out_[at.out] = static_cast<Out>(stored_value(call_.definition.dtype, value));
  }

  const OrderedSumCall& call_;
  const OrderedSumShape& shape_;
  const T *key_, *query_, *weight_, *scale_;
  Out* out_;
  const std::int64_t queries_;
  std::vector<OrderedLoop> outer_queries_;
  OrderedLoop inner_queries_;
  std::vector<SortEntry<T>> sorted_, asked_, spare_;
  std::vector<std::uint32_t> positions_;  // of the queries: how many keys they select
  std::vector<std::int64_t> limits_;      // of the queries, where there are ties
  std::vector<double> sums_;
  std::size_t first_harmless_ = 0;
};

template <class T, class Out>
void run_ordered_rows(ThreadPool& pool, const OrderedSumCall& call, const OrderedSumShape& shape,
                      const OrderedMemory& memory) {
  std::vector<OrderedRowSums<T, Out>> rows(static_cast<std::size_t>(pool.threads()), {call, shape, memory});
  pool.run(count_of(shape.rows), [&](std::int64_t row, int thread) {
    rows[static_cast<std::size_t>(thread)].run(shape.first + place_in(shape.rows, row));
  });
}

}  // namespace

void run_ordered_sum(ThreadPool& pool, const OrderedSumCall& call, const OrderedSumShape& shape,
                     const OrderedMemory& memory) {
  if (keeps_few_keys(call, shape)) return run_limited_counts(pool, call, shape, memory);
  visit_element(call.definition.dtype, [&]<class Out>(Out) {
    constexpr bool is_single = std::is_same_v<Out, float> || sizeof(Out) == 2;  // of integers the dtype is double
    using T = std::conditional_t<is_single, float, double>;
    run_ordered_rows<T, Out>(pool, call, shape, memory);
  });
}

}  // namespace moxie
