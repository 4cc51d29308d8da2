#include "runtime/batch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/arithmetic/philox.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Keeps the shuffle's random numbers apart from those of Programs, whose streams are not negative.
constexpr std::int64_t kShuffleStream = -1;

}  // namespace

BatchOrder::BatchOrder(std::size_t samples, std::size_t batch, std::uint64_t seed)
    : batch_(batch), seed_(seed), order_() {
  if (samples == 0 || samples > std::numeric_limits<std::uint32_t>::max())
    throw DataError(fmt::format("{} samples cannot be trained on; there must be some, and fewer than 2^32", samples));
  if (batch == 0) throw DataError("the batch size is 0, but must be positive");
  order_.resize(samples);
  shuffle();
}

std::span<const std::uint32_t> BatchOrder::next() {
  if (position_.used == order_.size()) {
    position_ = {position_.epoch + 1, 0};
    shuffle();
  }
  const std::size_t count = std::min(batch_, order_.size() - position_.used);
  const std::span<const std::uint32_t> batch(order_.data() + position_.used, count);
  position_.used += count;
  return batch;
}

void BatchOrder::seek(DataPosition position) {
  if (position.used > order_.size())
    throw DataError(fmt::format("the run used {} samples of its epoch, but there are only {}; is it the same data?",
                                position.used, order_.size()));
  position_ = position;
  shuffle();
}

/// Fisher and Yates, with one Philox block for every four draws.
void BatchOrder::shuffle() {
  std::iota(order_.begin(), order_.end(), 0U);
  const PhiloxKey key = philox_key(seed_, kShuffleStream, position_.epoch);
  PhiloxCounter words{};
  for (std::size_t left = order_.size(); left > 1; --left) {
    const std::size_t draw = order_.size() - left;
    if (draw % 4 == 0) words = philox4x32_10({static_cast<std::uint32_t>(draw / 4), 0, 0, 0}, key);
    const std::size_t other = static_cast<std::uint64_t>(words[draw % 4]) * left >> 32;
    std::swap(order_[left - 1], order_[other]);
  }
}

}  // namespace moxie
