// Arithmetic of floating-point numbers, rounded to the nearest.
#include <cmath>
#include <limits>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

/// "ftz": subnormal numbers become zeros of their sign.
float flushed(float a) { return std::fabs(a) < std::numeric_limits<float>::min() ? std::copysign(0.0F, a) : a; }
/// "sat": into [0, 1]; 0 for what is no number.
float saturated(float a) { return a > 0 ? (a < 1 ? a : 1) : 0; }

/// The other operand if one is no number; -0 is below +0.
template <class T>
T lower(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T higher(T a, T b) {
  return -lower(-a, -b);
}
template <class T>
T if_numbers(T a, T b, T result) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : result;
}

template <class T>
void add_type(OperationTable& table, const std::string& type) {
  for (const char* rounding : {".", ".rn."}) {
    table.add<[](T a, T b) { return a + b; }>("add" + (rounding + type));
    table.add<[](T a, T b) { return a - b; }>("sub" + (rounding + type));
    table.add<[](T a, T b) { return a * b; }>("mul" + (rounding + type));
  }
  table.add<[](T a, T b, T c) { return std::fma(a, b, c); }>("fma.rn." + type);
  table.add<[](T a, T b) { return a / b; }>("div.rn." + type);
  table.add<[](T a) { return T{1} / a; }>("rcp.rn." + type);
  table.add<[](T a) { return std::sqrt(a); }>("sqrt.rn." + type);
  table.add<[](T a) { return -a; }>("neg." + type);
  table.add<[](T a) { return std::fabs(a); }>("abs." + type);
  table.add<[](T a, T b) { return lower(a, b); }>("min." + type);
  table.add<[](T a, T b) { return higher(a, b); }>("max." + type);
  table.add<[](T sign, T a) { return std::copysign(a, sign); }>("copysign." + type);
  table.add<[](T a) { return std::isfinite(a); }>("testp.finite." + type);
  table.add<[](T a) { return std::isinf(a); }>("testp.infinite." + type);
  table.add<[](T a) { return !std::isnan(a); }>("testp.number." + type);
  table.add<[](T a) { return std::isnan(a); }>("testp.notanumber." + type);
  table.add<[](T a) { return std::isnormal(a); }>("testp.normal." + type);
  table.add<[](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }>("testp.subnormal." + type);
}

}  // namespace

void add_float_operations(OperationTable& table) {
  add_type<float>(table, "f32");
  add_type<double>(table, "f64");
  using F = float;
  table.add<[](F a, F b) { return if_numbers(a, b, lower(a, b)); }>("min.NaN.f32");
  table.add<[](F a, F b) { return if_numbers(a, b, higher(a, b)); }>("max.NaN.f32");
  for (const char* rounding : {".", ".rn."}) {
    const auto named = [&](const char* name, const char* rest) { return std::string(name) + rounding + rest; };
    table.add<[](F a, F b) { return flushed(flushed(a) + flushed(b)); }>(named("add", "ftz.f32"));
    table.add<[](F a, F b) { return flushed(flushed(a) - flushed(b)); }>(named("sub", "ftz.f32"));
    table.add<[](F a, F b) { return flushed(flushed(a) * flushed(b)); }>(named("mul", "ftz.f32"));
    table.add<[](F a, F b) { return saturated(a + b); }>(named("add", "sat.f32"));
    table.add<[](F a, F b) { return saturated(a * b); }>(named("mul", "sat.f32"));
  }
  table.add<[](F a, F b, F c) { return saturated(std::fma(a, b, c)); }>("fma.rn.sat.f32");
  table.add<[](F a, F b, F c) { return flushed(std::fma(flushed(a), flushed(b), flushed(c))); }>("fma.rn.ftz.f32");
}

}  // namespace moxie::ptx
