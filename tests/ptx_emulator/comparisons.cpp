// Comparisons "setp" without a further predicate: what the decoder makes the others of.
#include <cmath>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T>
void add_integers(OperationTable& table, const std::string& type) {
  table.add<[](T a, T b) { return a == b; }>("setp.eq." + type);
  table.add<[](T a, T b) { return a != b; }>("setp.ne." + type);
  table.add<[](T a, T b) { return a < b; }>("setp.lt." + type);
  table.add<[](T a, T b) { return a <= b; }>("setp.le." + type);
  table.add<[](T a, T b) { return b < a; }>("setp.gt." + type);
  table.add<[](T a, T b) { return a >= b; }>("setp.ge." + type);
}

/// The names for unsigned integers.
template <class T>
void add_unsigned(OperationTable& table, const std::string& type) {
  add_integers<T>(table, type);
  table.add<[](T a, T b) { return a < b; }>("setp.lo." + type);
  table.add<[](T a, T b) { return a <= b; }>("setp.ls." + type);
  table.add<[](T a, T b) { return b < a; }>("setp.hi." + type);
  table.add<[](T a, T b) { return a >= b; }>("setp.hs." + type);
}

template <class T>
bool unordered(T a, T b) {
  return std::isnan(a) || std::isnan(b);
}

/// Those that end in "u" hold where an operand is no number; of the others only "nan" does.
template <class T>
void add_floats(OperationTable& table, const std::string& type) {
  table.add<[](T a, T b) { return a == b; }>("setp.eq." + type);
  table.add<[](T a, T b) { return a < b || b < a; }>("setp.ne." + type);
  table.add<[](T a, T b) { return a < b; }>("setp.lt." + type);
  table.add<[](T a, T b) { return a <= b; }>("setp.le." + type);
  table.add<[](T a, T b) { return b < a; }>("setp.gt." + type);
  table.add<[](T a, T b) { return a >= b; }>("setp.ge." + type);
  table.add<[](T a, T b) { return !(a < b || b < a); }>("setp.equ." + type);
  table.add<[](T a, T b) { return a != b; }>("setp.neu." + type);
  table.add<[](T a, T b) { return !(a >= b); }>("setp.ltu." + type);
  table.add<[](T a, T b) { return !(b < a); }>("setp.leu." + type);
  table.add<[](T a, T b) { return !(a <= b); }>("setp.gtu." + type);
  table.add<[](T a, T b) { return !(a < b); }>("setp.geu." + type);
  table.add<[](T a, T b) { return !unordered(a, b); }>("setp.num." + type);
  table.add<[](T a, T b) { return unordered(a, b); }>("setp.nan." + type);
}

}  // namespace

void add_comparisons(OperationTable& table) {
  add_integers<std::int16_t>(table, "s16");
  add_integers<std::int32_t>(table, "s32");
  add_integers<std::int64_t>(table, "s64");
  add_unsigned<std::uint16_t>(table, "u16");
  add_unsigned<std::uint32_t>(table, "u32");
  add_unsigned<std::uint64_t>(table, "u64");
  add_unsigned<std::uint16_t>(table, "b16");
  add_unsigned<std::uint32_t>(table, "b32");
  add_unsigned<std::uint64_t>(table, "b64");
  add_floats<float>(table, "f32");
  add_floats<double>(table, "f64");
}

}  // namespace moxie::ptx
