#include "runtime/cpu/limited_counts.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "compiler/expression/dtype.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

/// How many times as long a row must be as what is kept of it. Rows of 1000 take 1.3 us for the lowest key, 2.7 for 5,
/// 7.2 for 20 and 17 for 60, all but 1 us of it for these, where sorting takes 16 (AVX-512).
constexpr std::int64_t kShortened = 32;
/// Keys or queries that are compared together with the largest that counts: most need no further look.
constexpr std::int64_t kComparedKeys = 16;

/// Elements of a row, `step` apart, so that keys that are selected are below a query: with the sign changed if they are
/// above it.
template <class T>
struct SignedRow {
  const T* first;
  std::int64_t step;
  T sign;

  T operator[](std::int64_t k) const { return sign * first[k * step]; }
};

/// How many elements of a block are not above the limit, NaN among them.
template <class T>
int count_not_above(const SignedRow<T>& row, std::int64_t begin, std::int64_t end, T limit) {
  int count = 0;
  if (row.step == 1 && end - begin == kComparedKeys) {
    const T* const first = row.first + begin;
    for (std::int64_t k = 0; k < kComparedKeys; ++k) count += row.sign * first[k] > limit ? 0 : 1;
    return count;
  }
  for (std::int64_t k = begin; k < end; ++k) count += row[k] > limit ? 0 : 1;
  return count;
}

template <class T, class Out>
class LimitedRowCounts {
 public:
  LimitedRowCounts(const OrderedSumCall& call, const OrderedSumShape& shape, const OrderedMemory& memory)
      : selection_(call.selection),
        dtype_(call.definition.dtype),
        most_(static_cast<std::size_t>(*call.most)),
        shape_(shape),
        sign_(call.selection.above ? T{-1} : T{1}),
        key_(static_cast<const T*>(memory.key)),
        query_(static_cast<const T*>(memory.query)),
        out_(static_cast<Out*>(memory.out)),
        outer_queries_(shape.queries) {
    if (outer_queries_.empty()) return;
    inner_queries_ = outer_queries_.back();
    outer_queries_.pop_back();
  }

  void run(const OrderedPlace& row) {
    keep_lowest({key_ + row.key, shape_.element.key, sign_});
    for (std::int64_t sum = 0; sum < count_of(shape_.sums); ++sum) {
      const OrderedPlace at = row + place_in(shape_.sums, sum);
      for (std::int64_t outer = 0; outer < count_of(outer_queries_); ++outer)
        store_counts(at + place_in(outer_queries_, outer));
    }
  }

 private:
  struct Key {
    T value;
    std::uint32_t index;
  };

  /// Of equal keys those come first, and are kept first, that a tie selects.
  void keep_lowest(const SignedRow<T>& keys) {
    lowest_.clear();
    const bool reversed = selection_.tie_limit && !selection_.tie_below;
    for (std::int64_t block = 0; block < shape_.keys; block += kComparedKeys) {
      const std::int64_t end = std::min(block + kComparedKeys, shape_.keys);
      const std::int64_t begin = reversed ? shape_.keys - end : block;
      const std::int64_t count = end - block;
      if (lowest_.size() == most_ && count_not_above(keys, begin, begin + count, lowest_.back().value) == 0) continue;
      for (std::int64_t k = 0; k < count; ++k) keep(keys, reversed ? begin + count - 1 - k : begin + k);
    }
  }

  /// NaN compares with nothing, and is left out.
  void keep(const SignedRow<T>& keys, std::int64_t index) {
    const T value = keys[index];
    if (std::isnan(value)) return;
    if (lowest_.size() == most_) {
      if (value >= lowest_.back().value) return;
      lowest_.pop_back();
    }
    lowest_.insert(std::ranges::upper_bound(lowest_, value, {}, &Key::value),
                   {value, static_cast<std::uint32_t>(index)});
  }

  void store_counts(const OrderedPlace& first) {
    const SignedRow<T> queries{query_ + first.query, inner_queries_.step.query, sign_};
    Out* const out = out_ + first.out;
    const std::int64_t step = inner_queries_.step.out;
    const Out all = stored(lowest_.size());
    for (std::int64_t begin = 0; begin < inner_queries_.count; begin += kComparedKeys) {
      const std::int64_t end = std::min(begin + kComparedKeys, inner_queries_.count);
      for (std::int64_t k = begin; k < end; ++k) out[k * step] = all;
      if (lowest_.empty() || count_not_above(queries, begin, end, lowest_.back().value) == 0) continue;
      for (std::int64_t k = begin; k < end; ++k) {
        if (queries[k] > lowest_.back().value) continue;
        out[k * step] = stored(selected_by(queries[k], first.limit + k * inner_queries_.step.limit));
      }
    }
  }

  Out stored(std::size_t count) const { return static_cast<Out>(stored_value(dtype_, static_cast<double>(count))); }

  /// How many of the kept keys the query selects.
  std::size_t selected_by(T query, std::int64_t tie_limit) const {
    const auto selects = [&](const Key& key) {
      if (key.value != query) return key.value < query;
      return selection_.tie_limit ? (std::int64_t{key.index} < tie_limit) == selection_.tie_below
                                  : selection_.with_equal;
    };
    return static_cast<std::size_t>(std::ranges::partition_point(lowest_, selects) - lowest_.begin());
  }

  const OrderedSelection& selection_;
  const DType dtype_;
  const std::size_t most_;
  const OrderedSumShape& shape_;
  const T sign_;
  const T *key_, *query_;
  Out* out_;
  std::vector<OrderedLoop> outer_queries_;
  OrderedLoop inner_queries_;
  std::vector<Key> lowest_;
};

}  // namespace

bool keeps_few_keys(const OrderedSumCall& call, const OrderedSumShape& shape) {
  return call.most && *call.most <= shape.keys / kShortened;
}

void run_limited_counts(ThreadPool& pool, const OrderedSumCall& call, const OrderedSumShape& shape,
                        const OrderedMemory& memory) {
  visit_element(call.definition.dtype, [&]<class Out>(Out) {
    constexpr bool is_single = std::is_same_v<Out, float> || sizeof(Out) == 2;  // of integers the dtype is double
    using T = std::conditional_t<is_single, float, double>;
    std::vector<LimitedRowCounts<T, Out>> rows(static_cast<std::size_t>(pool.threads()), {call, shape, memory});
    pool.run(count_of(shape.rows), [&](std::int64_t row, int thread) {
      rows[static_cast<std::size_t>(thread)].run(shape.first + place_in(shape.rows, row));
    });
  });
}

}  // namespace moxie
