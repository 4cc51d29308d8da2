// Normal numbers from random words, on vectors, against the reference.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "compiler/arithmetic/philox.h"
#include "compiler/codegen/llvm/vector_math.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cpu/plugin.h"

using namespace moxie;
using namespace moxie::llvm_ir;

namespace {

constexpr int kLanes = 8;
using Words = std::vector<std::uint32_t>;

/// void f(ptr a, ptr b, ptr normal)
std::string normal_module(Scalar type) {
  TextBuilder builder;
  const auto load = [&](const char* from) {
    return Vec{&builder,
               builder.raw(Scalar::i32, kLanes, fmt::format("load <{} x i32>, ptr {}, align 4", kLanes, from))};
  };
  const Vec a = load("%a"), b = load("%b");
  builder.line(fmt::format("store {}, ptr %normal, align 4",
                           typed((radius_from_word(a, type) * cosine_from_word(b, type)).val)));
  return builder.declarations() + "define void @f(ptr %a, ptr %b, ptr %normal) {\n" + builder.text() +
         "  ret void\n}\n";
}

template <class T>
std::vector<T> normals(const Words& a, const Words& b) {
  static const LoadedObject object(
      compile_llvm(normal_module(std::is_same_v<T, float> ? Scalar::f32 : Scalar::f64), host_machine()));
  auto* const f = reinterpret_cast<void (*)(const void*, const void*, void*)>(object.symbol("f"));
  std::vector<T> result(a.size());
  for (std::size_t i = 0; i < a.size(); i += kLanes) f(&a[i], &b[i], &result[i]);
  return result;
}

/// Words where the formulas change, and any.
Words words() {
  Words result = {0,          1,          2,          0x3FFFFFFF, 0x40000000, 0x40000001, 0x7FFFFFFF, 0x80000000,
                  0xB504F333, 0xB504F334, 0xBFFFFFFF, 0xC0000000, 0xC0000001, 0xFFFFFF00, 0xFFFFFFFE, 0xFFFFFFFF};
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random(3);
  while (result.size() < 512) result.push_back(random());
  return result;
}

/// As normal_from_words(), whose angle in double is not exact enough next to zeros of the cosine.
long double exact_normal(std::uint32_t a, std::uint32_t b) {
  const auto uniform = [](std::uint32_t word) { return (word + 0.5L) * 0x1p-32L; };
  return std::sqrt(-2 * std::log(uniform(a))) * std::cos(2 * std::numbers::pi_v<long double> * uniform(b));
}

}  // namespace

TEST_CASE("single normal numbers keep their digits, small ones and those next to zeros of the cosine too") {
  Words a, b;
  for (const std::uint32_t x : words()) {
    for (const std::uint32_t y : words()) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const std::vector<float> got = normals<float>(a, b);
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto wanted = static_cast<double>(exact_normal(a[i], b[i]));
    const double unit = std::ldexp(std::numeric_limits<float>::epsilon(), std::ilogb(wanted));
    const double error = std::abs(static_cast<double>(got[i]) - wanted) / unit;
    largest = std::isnan(error) ? HUGE_VAL : std::max(largest, error);
  }
  CHECK(largest < 4);
}

TEST_CASE("double normal numbers agree with the reference") {
  // The angle is rounded, so that next to zeros of the cosine digits are lost.
  const Words a = words(), b(a.rbegin(), a.rend());
  const std::vector<double> got = normals<double>(a, b);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - normal_from_words(a[i], b[i])) < 1e-14);
}
