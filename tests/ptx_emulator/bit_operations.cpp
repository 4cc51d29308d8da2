// Moves, selections and operations on bits.
#include <algorithm>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T>
constexpr unsigned kBits = 8 * sizeof(T);

/// `length` ones from bit 0 on.
template <class T>
T ones(unsigned length) {
  return length >= kBits<T> ? static_cast<T>(-1) : static_cast<T>((T{1} << length) - 1);
}

template <class T>
T shift_right(T a, std::uint32_t by) {
  if (by >= kBits<T>) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> by);
}

/// The field of `length` bits from bit `first` on; that of a signed number repeats its sign above.
template <class T>
T extract_field(T a, std::uint32_t first, std::uint32_t length) {
  using U = std::make_unsigned_t<T>;
  first &= 255;
  length &= 255;
  const U field = static_cast<U>(shift_right(static_cast<U>(a), first) & ones<U>(length));
  if (!std::is_signed_v<T> || length == 0) return static_cast<T>(field);
  const std::uint32_t sign_bit = std::min<std::uint32_t>(first + length - 1, kBits<T> - 1);
  const bool is_negative = (static_cast<U>(a) >> sign_bit & 1) != 0;
  return static_cast<T>(is_negative ? static_cast<U>(field | ~ones<U>(std::min(length, sign_bit - first + 1))) : field);
}

template <class T>
T insert_field(T field, T into, std::uint32_t first, std::uint32_t length) {
  first &= 255;
  length &= 255;
  if (first >= kBits<T>) return into;
  const T mask = static_cast<T>(ones<T>(length) << first);
  return (into & ~mask) | (static_cast<T>(field << first) & mask);
}

template <class T>
T reverse_bits(T a) {
  T reversed = 0;
  for (unsigned k = 0; k < kBits<T>; ++k, a >>= 1) reversed = static_cast<T>(reversed << 1 | (a & 1));
  return reversed;
}

/// Byte k of the result is the byte of b:a that nibble k of the selector names, or its sign where the nibble is
/// above 7.
std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t nibble = selector >> 4 * k & 15;
    const auto byte = static_cast<std::uint32_t>(both >> 8 * (nibble & 7) & 255);
    const std::uint32_t sign = (byte & 128) != 0 ? 255 : 0;
    result |= (nibble > 7 ? sign : byte) << 8 * k;
  }
  return result;
}

std::uint32_t funnel_left(std::uint32_t a, std::uint32_t b, std::uint32_t by) {
  return static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) << by >> 32);
}
std::uint32_t funnel_right(std::uint32_t a, std::uint32_t b, std::uint32_t by) {
  return static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) >> by);
}

template <class T>
void add_moves(OperationTable& table, const std::string& type) {
  table.add<[](T a) { return a; }>("mov." + type);
  table.add<[](T a, T b, bool chosen) { return chosen ? a : b; }>("selp." + type);
}

template <class T>
void add_logic(OperationTable& table, const std::string& type) {
  table.add<[](T a, T b) { return static_cast<T>(a & b); }>("and." + type);
  table.add<[](T a, T b) { return static_cast<T>(a | b); }>("or." + type);
  table.add<[](T a, T b) { return static_cast<T>(a ^ b); }>("xor." + type);
  table.add<[](T a) { return static_cast<T>(a ^ ones<T>(std::is_same_v<T, bool> ? 1 : kBits<T>)); }>("not." + type);
}

template <class T>
void add_shifts(OperationTable& table, const std::string& bits) {
  using S = std::make_signed_t<T>;
  table.add<[](T a, std::uint32_t by) { return static_cast<T>(by >= kBits<T> ? T{0} : static_cast<T>(a << by)); }>(
      "shl.b" + bits);
  table.add<[](T a, std::uint32_t by) { return shift_right(a, by); }>("shr.b" + bits);
  table.add<[](T a, std::uint32_t by) { return shift_right(a, by); }>("shr.u" + bits);
  table.add<[](S a, std::uint32_t by) { return shift_right(a, by); }>("shr.s" + bits);
}

template <class T>
void add_fields(OperationTable& table, const std::string& bits) {
  using S = std::make_signed_t<T>;
  using Count = std::uint32_t;
  table.add<[](T a) { return static_cast<Count>(std::popcount(a)); }>("popc.b" + bits);
  table.add<[](T a) { return static_cast<Count>(std::countl_zero(a)); }>("clz.b" + bits);
  // The place of the highest bit that is set, or how far it is from the highest there is.
  constexpr Count kNone = 0xffffffff;
  table.add<[](T a) { return a == 0 ? kNone : static_cast<Count>(kBits<T> - 1 - std::countl_zero(a)); }>("bfind.u" +
                                                                                                         bits);
  table.add<[](T a) { return a == 0 ? kNone : static_cast<Count>(std::countl_zero(a)); }>("bfind.shiftamt.u" + bits);
  table.add<[](T a) { return reverse_bits(a); }>("brev.b" + bits);
  table.add<[](T a, Count first, Count length) { return extract_field(a, first, length); }>("bfe.u" + bits);
  table.add<[](S a, Count first, Count length) { return extract_field(a, first, length); }>("bfe.s" + bits);
  table.add<[](T a, T b, Count first, Count length) { return insert_field(a, b, first, length); }>("bfi.b" + bits);
}

}  // namespace

void add_bit_operations(OperationTable& table) {
  for (const char* kind : {"b", "u", "s"}) {
    add_moves<std::uint16_t>(table, kind + std::string("16"));
    add_moves<std::uint32_t>(table, kind + std::string("32"));
    add_moves<std::uint64_t>(table, kind + std::string("64"));
  }
  add_moves<float>(table, "f32");
  add_moves<double>(table, "f64");
  table.add<[](bool a) { return a; }>("mov.pred");
  add_logic<bool>(table, "pred");
  add_logic<std::uint16_t>(table, "b16");
  add_logic<std::uint32_t>(table, "b32");
  add_logic<std::uint64_t>(table, "b64");
  add_shifts<std::uint16_t>(table, "16");
  add_shifts<std::uint32_t>(table, "32");
  add_shifts<std::uint64_t>(table, "64");
  add_fields<std::uint32_t>(table, "32");
  add_fields<std::uint64_t>(table, "64");
  using Word = std::uint32_t;
  table.add<[](Word a, Word b, Word by) { return funnel_left(a, b, by & 31); }>("shf.l.wrap.b32");
  table.add<[](Word a, Word b, Word by) { return funnel_right(a, b, by & 31); }>("shf.r.wrap.b32");
  table.add<[](Word a, Word b, Word by) { return funnel_left(a, b, std::min(by, 32U)); }>("shf.l.clamp.b32");
  table.add<[](Word a, Word b, Word by) { return funnel_right(a, b, std::min(by, 32U)); }>("shf.r.clamp.b32");
  table.add<[](Word a, Word b, Word selector) { return permute_bytes(a, b, selector); }>("prmt.b32");
}

}  // namespace moxie::ptx
