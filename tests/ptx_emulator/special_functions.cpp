// The functions that GPUs approximate. The results here are the nearest numbers, except where PTX defines which bits of
// the result there are: a GPU's may differ in the last bits that PTX allows.
#include <cmath>
#include <limits>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T>
T flushed(T a) {
  return std::fabs(a) < std::numeric_limits<T>::min() ? std::copysign(T{0}, a) : a;
}

/// Through double precision, which rounds rightly.
template <double (*function)(double)>
float through_double(float a) {
  return static_cast<float>(function(static_cast<double>(a)));
}
float exp2_of(float a) { return through_double<std::exp2>(a); }
float log2_of(float a) { return through_double<std::log2>(a); }
float sine(float a) { return through_double<std::sin>(a); }
float cosine(float a) { return through_double<std::cos>(a); }
float hyperbolic_tangent(float a) { return through_double<std::tanh>(a); }
float reciprocal(float a) { return 1 / a; }
float square_root(float a) { return std::sqrt(a); }
float reciprocal_root(float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }

template <float (*function)(float)>
void add_function(OperationTable& table, const std::string& name) {
  table.add_slow<[](float a) { return function(a); }>(name + ".approx.f32");
  table.add_slow<[](float a) { return flushed(function(flushed(a))); }>(name + ".approx.ftz.f32");
}

/// The upper half of the number: 20 bits of the mantissa, all that "rcp.approx.ftz.f64" gives.
double upper_half(double a) {
  return std::isnan(a) ? a : std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & 0xffffffff00000000);
}

}  // namespace

void add_special_functions(OperationTable& table) {
  add_function<exp2_of>(table, "ex2");
  add_function<log2_of>(table, "lg2");
  add_function<sine>(table, "sin");
  add_function<cosine>(table, "cos");
  add_function<reciprocal>(table, "rcp");
  add_function<square_root>(table, "sqrt");
  add_function<reciprocal_root>(table, "rsqrt");
  table.add_slow<[](float a) { return hyperbolic_tangent(a); }>("tanh.approx.f32");
  for (const char* kind : {"approx", "full"}) {
    table.add<[](float a, float b) { return a / b; }>(std::string("div.") + kind + ".f32");
    table.add<[](float a, float b) { return flushed(flushed(a) / flushed(b)); }>(std::string("div.") + kind +
                                                                                 ".ftz.f32");
  }
  table.add_slow<[](double a) { return flushed(upper_half(1 / flushed(a))); }>("rcp.approx.ftz.f64");
  table.add_slow<[](double a) { return upper_half(1 / std::sqrt(flushed(a))); }>("rsqrt.approx.ftz.f64");
  table.add_slow<[](double a) { return 1 / std::sqrt(a); }>("rsqrt.approx.f64");
}

}  // namespace moxie::ptx
