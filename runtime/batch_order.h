#pragma once
// BatchOrder: which samples each training step uses.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moxie {

/// Where a training run stands: its epoch, from 0, and how many samples of it have been used.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::size_t used = 0;
  bool operator==(const DataPosition&) const = default;
};

/// Every epoch visits all samples once, in an order that follows from the seed and the epoch alone, so that a run can
/// be taken up again anywhere.
class BatchOrder {
 public:
  /// Throws DataError unless there are samples, and fewer than 2^32, and `batch` is positive.
  BatchOrder(std::size_t samples, std::size_t batch, std::uint64_t seed);

  /// The samples of the next step, valid until the next call. The last batch of an epoch may be smaller.
  std::span<const std::uint32_t> next();
  DataPosition position() const { return position_; }
  /// Throws DataError for a position that no run over these samples reaches.
  void seek(DataPosition position);

 private:
  void shuffle();

  std::size_t batch_;
  std::uint64_t seed_;
  DataPosition position_;
  std::vector<std::uint32_t> order_;
};

}  // namespace moxie
