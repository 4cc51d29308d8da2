#pragma once
// Random: choices that a seed decides.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace moxie::test {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  double real(double low, double high) { return std::uniform_real_distribution<>(low, high)(engine_); }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <class Item>
  const Item& pick(const std::vector<Item>& items) {
    return items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(items.size()) - 1))];
  }
  template <class Item>
  void shuffle(std::vector<Item>& items) {
    std::ranges::shuffle(items, engine_);
  }
  /// The position of an alternative, chosen with the given weights.
  std::size_t weighted(const std::vector<double>& weights) {
    return std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(engine_);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace moxie::test
