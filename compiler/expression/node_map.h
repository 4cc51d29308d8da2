#pragma once
// Tables by node: what passes remember of the nodes that they have met, in flat memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// Numbers nodes from 0 in the order in which they are inserted. A short list is searched; only long ones get a table.
class NodeNumbers {
 public:
  std::optional<std::size_t> find(const Node* node) const {
    if (table_.empty()) return find_in_list(node);
    for (std::size_t slot = first_slot(node);; slot = next(slot)) {
      if (table_[slot] == kFree) return std::nullopt;
      if (node_at(table_[slot]) == node) return table_[slot];
    }
  }
  /// The number of the node, and whether it is new.
  std::pair<std::size_t, bool> insert(const Node* node) {
    if (const auto known = find(node)) return {*known, false};
    const std::size_t number = size_++;
    if (number < kListed)
      list_[number] = node;
    else
      more_.push_back(node);
    if (size_ > kListed && 2 * size_ > table_.size())
      grow();
    else if (!table_.empty())
      put(number);
    return {number, true};
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kListed = 16, kFirstTable = 64;  // the size of a table is a power of two
  static constexpr std::uint32_t kFree = UINT32_MAX;

  std::optional<std::size_t> find_in_list(const Node* node) const {
    for (std::size_t number = 0; number < size_; ++number) {
      if (list_[number] == node) return number;
    }
    return std::nullopt;
  }
  const Node* node_at(std::size_t number) const { return number < kListed ? list_[number] : more_[number - kListed]; }
  /// Fibonacci hashing: the low bits of addresses are alike.
  std::size_t first_slot(const Node* node) const {
    const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(mixed >> 32) & (table_.size() - 1);
  }
  std::size_t next(std::size_t slot) const { return (slot + 1) & (table_.size() - 1); }
  void put(std::size_t number) {
    std::size_t slot = first_slot(node_at(number));
    while (table_[slot] != kFree) slot = next(slot);
    table_[slot] = static_cast<std::uint32_t>(number);
  }
  void grow() {
    table_.assign(table_.empty() ? kFirstTable : 4 * table_.size(), kFree);
    for (std::size_t number = 0; number < size_; ++number) put(number);
  }

  std::array<const Node*, kListed> list_{};
  std::vector<const Node*> more_;
  std::vector<std::uint32_t> table_;  // numbers
  std::size_t size_ = 0;
};

/// The nodes must stay alive, or the values must hold them: another node could take the address of a dead one.
class NodeSet {
 public:
  /// Whether it was not there.
  bool insert(const Node* node) { return numbers_.insert(node).second; }
  bool contains(const Node* node) const { return numbers_.find(node).has_value(); }

 private:
  NodeNumbers numbers_;
};

/// As NodeSet, with a value for each node. Pointers to values hold until the next insertion.
template <class Value>
class NodeMap {
 public:
  /// nullptr where there is none.
  const Value* find(const Node* node) const {
    const auto number = numbers_.find(node);
    return number ? &values_[*number].value : nullptr;
  }
  /// A default value where there was none.
  Value& operator[](const Node* node) {
    const auto [number, is_new] = numbers_.insert(node);
    if (is_new) values_.emplace_back();
    return values_[number].value;
  }
  /// The value that was there stays.
  const Value& emplace(const Node* node, Value value) {
    const auto [number, is_new] = numbers_.insert(node);
    if (is_new) values_.push_back({std::move(value)});
    return values_[number].value;
  }

 private:
  struct Slot {
    Value value = {};
  };
  NodeNumbers numbers_;
  std::vector<Slot> values_;  // a vector of bool has no addresses of its elements
};

/// Results by expression, which it keeps alive.
class Results {
 public:
  const Expr* find(const Expr& expr) const {
    const Entry* entry = entries_.find(expr.get());
    return entry ? &entry->result : nullptr;
  }
  void emplace(const Expr& expr, const Expr& result) { entries_.emplace(expr.get(), Entry{expr, result}); }

 private:
  struct Entry {
    Expr expr, result;
  };
  NodeMap<Entry> entries_;
};

}  // namespace moxie
