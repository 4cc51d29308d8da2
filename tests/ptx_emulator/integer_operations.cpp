// Arithmetic of integers, which wraps around.
#include <algorithm>
#include <limits>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Sums and products in an unsigned type of at least 32 bits, where they wrap around.
template <class T>
using Modular = std::conditional_t<sizeof(T) < 4, std::uint32_t, Unsigned<T>>;

template <class T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Modular<T>>(a) + static_cast<Modular<T>>(b));
}
template <class T>
T multiply(T a, T b) {
  return static_cast<T>(static_cast<Modular<T>>(a) * static_cast<Modular<T>>(b));
}

/// The type of products of T in full.
template <class T>
struct Wide;
template <>
struct Wide<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Wide<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Wide<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Wide<std::int32_t> {
  using type = std::int64_t;
};
__extension__ template <>
struct Wide<std::uint64_t> {
  using type = unsigned __int128;
};
__extension__ template <>
struct Wide<std::int64_t> {
  using type = __int128;
};
template <class T>
using WideOf = typename Wide<T>::type;

template <class T>
T multiply_high(T a, T b) {
  return static_cast<T>(static_cast<WideOf<T>>(a) * static_cast<WideOf<T>>(b) >> 8 * sizeof(T));
}

/// As GPUs divide: all ones by zero; the lowest number over -1 is itself.
template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<Modular<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

template <class T>
void add_arithmetic(OperationTable& table, const std::string& type) {
  table.add<[](T a, T b) { return add(a, b); }>("add." + type);
  table.add<[](T a, T b) { return static_cast<T>(static_cast<Modular<T>>(a) - static_cast<Modular<T>>(b)); }>("sub." +
                                                                                                              type);
  table.add<[](T a, T b) { return multiply(a, b); }>("mul.lo." + type);
  table.add<[](T a, T b) { return multiply_high(a, b); }>("mul.hi." + type);
  table.add<[](T a, T b, T c) { return add(multiply(a, b), c); }>("mad.lo." + type);
  table.add<[](T a, T b, T c) { return add(multiply_high(a, b), c); }>("mad.hi." + type);
  table.add_slow<[](T a, T b) { return divide(a, b); }>("div." + type);
  table.add_slow<[](T a, T b) { return remainder(a, b); }>("rem." + type);
  table.add<[](T a, T b) { return std::min(a, b); }>("min." + type);
  table.add<[](T a, T b) { return std::max(a, b); }>("max." + type);
  if (std::is_signed_v<T>) {
    table.add<[](T a) { return static_cast<T>(0 - static_cast<Modular<T>>(a)); }>("neg." + type);
    table.add<[](T a) { return a < 0 ? static_cast<T>(0 - static_cast<Modular<T>>(a)) : a; }>("abs." + type);
  }
}

template <class T>
void add_wide(OperationTable& table, const std::string& type) {
  using W = WideOf<T>;
  table.add<[](T a, T b) { return static_cast<W>(static_cast<W>(a) * static_cast<W>(b)); }>("mul.wide." + type);
  table.add<[](T a, T b, W c) { return add(static_cast<W>(static_cast<W>(a) * static_cast<W>(b)), c); }>("mad.wide." +
                                                                                                         type);
}

}  // namespace

void add_integer_operations(OperationTable& table) {
  add_arithmetic<std::uint16_t>(table, "u16");
  add_arithmetic<std::int16_t>(table, "s16");
  add_arithmetic<std::uint32_t>(table, "u32");
  add_arithmetic<std::int32_t>(table, "s32");
  add_arithmetic<std::uint64_t>(table, "u64");
  add_arithmetic<std::int64_t>(table, "s64");
  add_wide<std::uint16_t>(table, "u16");
  add_wide<std::int16_t>(table, "s16");
  add_wide<std::uint32_t>(table, "u32");
  add_wide<std::int32_t>(table, "s32");
}

}  // namespace moxie::ptx
