// Arithmetic in the other directions of rounding. Built with -frounding-math, so that the compiler computes nothing
// ahead.
#include <cfenv>
#include <cmath>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T, int direction, class F>
T rounded(const F& compute) {
  const int before = std::fegetround();
  std::fesetround(direction);
  const volatile T result = compute();
  std::fesetround(before);
  return result;
}

template <class T, int d>
void add_direction(OperationTable& table, const std::string& suffix) {
  table.add_slow<[](T a, T b) { return rounded<T, d>([&] { return a + b; }); }>("add" + suffix);
  table.add_slow<[](T a, T b) { return rounded<T, d>([&] { return a - b; }); }>("sub" + suffix);
  table.add_slow<[](T a, T b) { return rounded<T, d>([&] { return a * b; }); }>("mul" + suffix);
  table.add_slow<[](T a, T b) { return rounded<T, d>([&] { return a / b; }); }>("div" + suffix);
  table.add_slow<[](T a, T b, T c) { return rounded<T, d>([&] { return std::fma(a, b, c); }); }>("fma" + suffix);
  table.add_slow<[](T a) { return rounded<T, d>([&] { return 1 / a; }); }>("rcp" + suffix);
  table.add_slow<[](T a) { return rounded<T, d>([&] { return std::sqrt(a); }); }>("sqrt" + suffix);
}

template <class T>
void add_type(OperationTable& table, const std::string& type) {
  add_direction<T, FE_TOWARDZERO>(table, ".rz." + type);
  add_direction<T, FE_DOWNWARD>(table, ".rm." + type);
  add_direction<T, FE_UPWARD>(table, ".rp." + type);
}

}  // namespace

void add_rounded_operations(OperationTable& table) {
  add_type<float>(table, "f32");
  add_type<double>(table, "f64");
}

}  // namespace moxie::ptx
