#pragma once
// RecentlyUsed: a map of bounded size.
#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace moxie {

/// A map that forgets the least recently used entry beyond its capacity.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 1)) {}
  RecentlyUsed(const RecentlyUsed&) = delete;
  RecentlyUsed& operator=(const RecentlyUsed&) = delete;
  /// The value, or nothing.
  Value find(const Key& key) {
    const auto known = places_.find(key);
    if (known == places_.end()) return {};
    entries_.splice(entries_.begin(), entries_, known->second);
    return known->second->second;
  }
  /// The key must not be there yet: find() said so.
  void insert(const Key& key, Value value) {
    entries_.emplace_front(key, std::move(value));
    places_[key] = entries_.begin();
    if (entries_.size() <= capacity_) return;
    places_.erase(entries_.back().first);
    entries_.pop_back();
  }
  std::size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<Key, Value>>;
  std::size_t capacity_;
  Entries entries_;  // the most recently used first
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace moxie
