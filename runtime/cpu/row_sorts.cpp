#include "runtime/cpu/row_sorts.h"

#include <limits>

#include "runtime/cpu/sort_entries.h"

namespace moxie {
namespace {

template <class T>
class RowSorter {
 public:
  RowSorter(const AlgebraShape& shape, const void* row, void* positions)
      : shape_(shape), row_(static_cast<const T*>(row)), positions_(static_cast<std::int32_t*>(positions)) {}

  void run(std::int64_t number) {
    const AlgebraElement element = element_of(shape_, number);
    read(row_ + element.matrix);
    sort_entries(entries_, spare_);
    std::int32_t* out = positions_ + element.out;
    for (std::int64_t k = 0; k < shape_.out_rows; ++k)
      out[k * shape_.out.row_stride] = static_cast<std::int32_t>(entries_[static_cast<std::size_t>(k)].index);
  }

 private:
  /// NaN comes after all numbers.
  void read(const T* first) {
    entries_.resize(static_cast<std::size_t>(shape_.rows));
    std::uint32_t index = 0;
    for (SortEntry<T>& entry : entries_) {
      const T value = *first;
      entry = {value == value ? ordered_bits(value) : std::numeric_limits<SortBits<T>>::max(), index++};
      first += shape_.matrix.row_stride;
    }
  }

  const AlgebraShape& shape_;
  const T* row_;
  std::int32_t* positions_;
  std::vector<SortEntry<T>> entries_, spare_;
};

template <class T>
void sort_all(ThreadPool& pool, const AlgebraShape& shape, const void* row, void* positions) {
  std::vector<RowSorter<T>> sorters(static_cast<std::size_t>(pool.threads()), {shape, row, positions});
  pool.run(batch_count(shape),
           [&](std::int64_t number, int thread) { sorters[static_cast<std::size_t>(thread)].run(number); });
}

}  // namespace

void sort_rows(ThreadPool& pool, DType dtype, const AlgebraShape& shape, const void* row, void* positions) {
  if (shape.rows == 0 || batch_count(shape) == 0) return;
  if (dtype == DType::f32)
    sort_all<float>(pool, shape, row, positions);
  else
    sort_all<double>(pool, shape, row, positions);
}

}  // namespace moxie
