#pragma once
// Byte archives: values of plain types as bytes, and back. Whoever adds a member to such a type raises its number in a
// table of kMembers, or the compiler refuses: nothing can be forgotten.
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {

/// How many members a type has, all of them public: each is written, in their order. 0: it is written in another way.
template <class T>
inline constexpr int kMembers = 0;
/// The last value of an enumeration whose values count from 0.
template <class T>
inline constexpr T kLastValue = T{};

/// References to all members of `value`.
template <int count, class T>
auto members_of(T& value) {
  static_assert(count >= 1 && count <= 13, "add a case");
  if constexpr (count == 1) {
    auto& [a] = value;
    return std::tie(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (count == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  }
}

/// Writes plain types. `Derived` adds put() for the others.
template <class Derived>
class ByteWriter {
  friend Derived;
  ByteWriter() = default;

 public:
  const std::string& bytes() const { return bytes_; }

  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>) {
      number(static_cast<std::uint64_t>(value));
    } else {  // small negative numbers are short, too
      const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      number((bits << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0));
    }
  }
  void put(const double& value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    bytes_.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
  void put(const std::string& text) {
    number(text.size());
    bytes_ += text;
  }
  template <class T>
  void put(const std::vector<T>& values) {
    number(values.size());
    for (const T& value : values) self().put(value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) self().put(*value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    self().put(value.first);
    self().put(value.second);
  }
  template <class K, class V, class Order>
  void put(const std::map<K, V, Order>& values) {
    number(values.size());
    for (const auto& value : values) self().put(value);
  }
  template <class... Types>
  void put(const std::variant<Types...>& value) {
    number(value.index());
    std::visit([&](const auto& alternative) { self().put(alternative); }, value);
  }
  template <class T>
    requires(kMembers<T> > 0)
  void put(const T& value) {
    std::apply([&](const auto&... member) { (self().put(member), ...); }, members_of<kMembers<T>>(value));
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  std::string bytes_;
};

/// Reads what a ByteWriter wrote. `Derived` adds get() for other types, and blank<T>(), a value to read into. Throws
/// CacheError for bytes that end early or that no value has.
template <class Derived>
class ByteReader {
  friend Derived;
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

 public:
  bool at_end() const { return rest_.empty(); }

  [[noreturn]] static void refuse() { throw CacheError("an archive holds other values than were looked for"); }

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void get(T& value) {
    const std::uint64_t bits = number();
    if constexpr (std::is_enum_v<T>) {
      if (bits > static_cast<std::uint64_t>(kLastValue<T>)) refuse();
      value = static_cast<T>(bits);
    } else if constexpr (std::same_as<T, bool>) {
      if (bits > 1) refuse();
      value = bits == 1;
    } else {
      const std::uint64_t plain = std::unsigned_integral<T> ? bits : (bits >> 1) ^ (~(bits & 1) + 1);
      value = static_cast<T>(plain);
      if (std::unsigned_integral<T> ? value != plain
                                    : static_cast<std::int64_t>(value) != static_cast<std::int64_t>(plain))
        refuse();
    }
  }
  void get(double& value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, take(sizeof(bits)).data(), sizeof(bits));
    value = std::bit_cast<double>(bits);
  }
  void get(std::string& text) { text = take(number()); }
  template <class T>
  void get(std::vector<T>& values) {
    const std::size_t size = length();
    values.clear();
    values.reserve(size);
    for (std::size_t k = 0; k < size; ++k) self().get(values.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    if (!there) return value.reset();
    self().get(value.emplace(T{}));
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    self().get(value.first);
    self().get(value.second);
  }
  template <class K, class V, class Order>
  void get(std::map<K, V, Order>& values) {
    values.clear();
    for (std::size_t left = length(); left > 0; --left) {
      std::pair<K, V> value;
      get(value);
      values.insert_or_assign(std::move(value.first), std::move(value.second));
    }
  }
  template <class... Types>
  void get(std::variant<Types...>& value) {
    const std::uint64_t index = number();
    std::uint64_t k = 0;
    const auto read_as = [&](auto blank) { self().get(value.template emplace<decltype(blank)>(std::move(blank))); };
    if (!((k++ == index && (read_as(Derived::template blank<Types>()), true)) || ...)) refuse();
  }
  template <class T>
    requires(kMembers<T> > 0)
  void get(T& value) {
    std::apply([&](auto&... member) { (self().get(member), ...); }, members_of<kMembers<T>>(value));
  }

 protected:
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) refuse();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  /// The length of a list. It is refused if the rest is shorter: each element takes a byte at least.
  std::size_t length() {
    const std::uint64_t size = number();
    if (size > rest_.size()) refuse();
    return size;
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  std::string_view rest_;
};

}  // namespace moxie
