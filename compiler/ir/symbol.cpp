#include "compiler/ir/symbol.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "compiler/support/hash.h"

namespace moxie {
namespace {

/// Dim names by number. Append-only, so that a name handed out stays valid.
class NameTable {
 public:
  std::uint32_t number_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto it = numbers_.find(name); it != numbers_.end()) return it->second;
    names_.emplace_back(name);
    const auto number = static_cast<std::uint32_t>(names_.size() - 1);
    numbers_.emplace(names_.back(), number);
    return number;
  }
  const std::string& name_of(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    return names_[number];
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

NameTable& names() {
  static NameTable table;
  return table;
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
      return names().name_of(number_);
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
  if (kind_ == Kind::Dim) return names().name_of(number_) <=> names().name_of(other.number_);
  return number_ <=> other.number_;
}

std::uint64_t Symbol::hash() const {
  const auto seed = static_cast<std::uint64_t>(kind_) + 1;
  return is_dim() ? mix(seed, hash_text(names().name_of(number_))) : mix(seed, number_);
}

}  // namespace moxie
