#include "compiler/expression/symbol.h"

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <unordered_map>

#include "compiler/support/hash.h"

namespace moxie {
namespace {

struct DimName {
  std::string text;
  std::uint64_t hash;
};

/// Dim names by number. Append-only, so that a name handed out stays valid and is read without a lock: symbols are
/// ordered and hashed all the time.
class NameTable {
 public:
  std::uint32_t number_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto it = numbers_.find(name); it != numbers_.end()) return it->second;
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    const Place place = place_of(number);
    if (place.index == 0) chunks_[place.chunk] = new DimName[std::size_t{1} << place.chunk];
    DimName& fresh = chunks_[place.chunk].load()[place.index];
    fresh = {std::string(name), hash_text(name)};
    numbers_.emplace(fresh.text, number);
    return number;
  }
  /// A number that number_of() gave.
  const DimName& at(std::uint32_t number) const {
    const Place place = place_of(number);
    return chunks_[place.chunk].load(std::memory_order_acquire)[place.index];
  }

 private:
  struct Place {
    std::size_t chunk, index;
  };
  /// Chunk k holds the 2^k names from number 2^k - 1 on.
  static Place place_of(std::uint32_t number) {
    const std::size_t from_one = std::size_t{number} + 1, chunk = std::bit_width(from_one) - 1;
    return {chunk, from_one - (std::size_t{1} << chunk)};
  }

  std::mutex mutex_;
  std::array<std::atomic<DimName*>, 33> chunks_{};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Never destroyed, as the expressions whose symbols it names.
NameTable& names() {
  static auto* table = new NameTable;
  return *table;
}

}  // namespace

Symbol Symbol::dim(std::string_view name) { return {Kind::Dim, names().number_of(name)}; }

Symbol Symbol::fresh() {
  static std::atomic<std::uint32_t> next = 0;
  return {Kind::Free, next++};
}

std::string Symbol::name() const {
  switch (kind_) {
    case Kind::Dim:
      return names().at(number_).text;
    case Kind::Axis:
      return "axis" + std::to_string(number_);
    case Kind::Bound:
      return "bound" + std::to_string(number_);
    case Kind::Free:
      return "free" + std::to_string(number_);
    case Kind::Value:
      return "value" + std::to_string(number_);
  }
  return {};
}

std::strong_ordering Symbol::operator<=>(const Symbol& other) const {
  if (kind_ != other.kind_) return kind_ <=> other.kind_;
  if (number_ == other.number_) return std::strong_ordering::equal;
  if (kind_ == Kind::Dim) return names().at(number_).text <=> names().at(other.number_).text;
  return number_ <=> other.number_;
}

std::uint64_t Symbol::hash() const {
  const auto seed = static_cast<std::uint64_t>(kind_) + 1;
  return is_dim() ? mix(seed, names().at(number_).hash) : mix(seed, number_);
}

}  // namespace moxie
