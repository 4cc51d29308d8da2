// Instructions that compute, each against values worked out by hand or by the host's own arithmetic.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/ptx_emulator/kernel_runner.h"
#include "tests/ptx_emulator/syntax.h"

using namespace moxie::ptx;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// The bits of a value of this type.
std::uint64_t bits(double value, Type type) {
  if (type.kind != 'f') return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  return type.bytes == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                         : std::bit_cast<std::uint64_t>(value);
}

std::string register_name(Type type, int number) {
  if (type.kind == 'p') return fmt::format("%p{}", number);
  if (type.kind == 'f') return fmt::format("%{}{}", type.bytes == 4 ? "f" : "d", number);
  return fmt::format("%{}{}", type.bytes == 2 ? "h" : type.bytes == 4 ? "r" : "rd", number);
}

/// The result of one instruction: `types` are those of the result and the operands, as suffixes. Operands are bits.
std::uint64_t compute_bits(const std::string& opcode, const std::vector<std::string>& types,
                           const std::vector<std::uint64_t>& operands) {
  DeviceMemory memory(1 << 20);
  const Array<std::uint64_t> in(memory, operands);
  const Array<std::uint64_t> out(memory, {0});
  std::string body, list;
  for (std::size_t k = 0; k < types.size(); ++k) {
    const Type type = *find_type(types[k]);
    const std::string name = register_name(type, static_cast<int>(k));
    list += (k == 0 ? "" : ", ") + name;
    if (k == 0) continue;
    if (type.kind == 'p')
      body += fmt::format("ld.global.u32 %r19, [%a0+{}]; setp.ne.u32 {}, %r19, 0;\n", 8 * (k - 1), name);
    else
      body += fmt::format("ld.global.b{} {}, [%a0+{}];\n", 8 * type.bytes, name, 8 * (k - 1));
  }
  body += fmt::format("{} {};\n", opcode, list);
  const Type result = *find_type(types[0]);
  if (result.kind == 'p')
    body += "selp.u32 %r19, 1, 0, %p0; st.global.u32 [%a1], %r19;";
  else
    body += fmt::format("st.global.b{} [%a1], {};", 8 * result.bytes, register_name(result, 0));
  run_kernel(kernel_text(body, 2), memory, {in.address(), out.address()});
  return out.values()[0];
}

/// The same on values; the result as a double.
double compute(const std::string& opcode, const std::vector<std::string>& types, const std::vector<double>& operands) {
  std::vector<std::uint64_t> given;
  for (std::size_t k = 0; k < operands.size(); ++k) given.push_back(bits(operands[k], *find_type(types[k + 1])));
  const std::uint64_t result = compute_bits(opcode, types, given);
  const Type type = *find_type(types[0]);
  if (type.kind == 'f') {
    return type.bytes == 4 ? double{std::bit_cast<float>(static_cast<std::uint32_t>(result))}
                           : std::bit_cast<double>(result);
  }
  if (type.kind == 's' && type.bytes == 4) return static_cast<std::int32_t>(result);
  if (type.kind == 's' && type.bytes == 2) return static_cast<std::int16_t>(result);
  if (type.kind == 's') return static_cast<double>(static_cast<std::int64_t>(result));
  return static_cast<double>(result);
}

double unary(const std::string& opcode, const std::string& type, double a) {
  return compute(opcode, {type, type}, {a});
}
double binary(const std::string& opcode, const std::string& type, double a, double b) {
  return compute(opcode, {type, type, type}, {a, b});
}
double compare(const std::string& opcode, const std::string& type, double a, double b) {
  return compute(opcode, {"pred", type, type}, {a, b});
}
double convert(const std::string& opcode, const std::string& to, const std::string& from, double a) {
  return compute(opcode, {to, from}, {a});
}

}  // namespace

TEST_CASE("integers wrap around") {
  CHECK(binary("add.s32", "s32", 2147483647, 1) == -2147483648.0);
  CHECK(binary("sub.u32", "u32", 1, 2) == 4294967295.0);
  CHECK(binary("add.s16", "s16", 32767, 1) == -32768);
  CHECK(binary("mul.lo.s32", "s32", 65536, 65536) == 0);
  CHECK(binary("mul.lo.s16", "s16", 300, 300) == 24464);
  CHECK(binary("mul.hi.s32", "s32", -2, 3) == -1);
  CHECK(binary("mul.hi.u32", "u32", 4294967295.0, 2) == 1);
  CHECK(compute_bits("mul.hi.u64", {"u64", "u64", "u64"}, {~std::uint64_t{0}, 16}) == 15);
  CHECK(compute_bits("mul.hi.s64", {"s64", "s64", "s64"}, {~std::uint64_t{0}, 16}) == ~std::uint64_t{0});
  CHECK(compute("mul.wide.s32", {"s64", "s32", "s32"}, {-3, 2147483647}) == -6442450941.0);
  CHECK(compute("mul.wide.u32", {"u64", "u32", "u32"}, {4294967295.0, 2}) == 8589934590.0);
  CHECK(compute("mad.lo.s32", {"s32", "s32", "s32", "s32"}, {-3, 5, 7}) == -8);
  CHECK(compute("mad.wide.u32", {"u64", "u32", "u32", "u64"}, {65536, 65536, 1}) == 4294967297.0);
  CHECK(unary("neg.s32", "s32", -2147483648.0) == -2147483648.0);
  CHECK(unary("abs.s32", "s32", -5) == 5);
}

TEST_CASE("integers divide as GPUs do") {
  CHECK(binary("div.s32", "s32", -7, 2) == -3);
  CHECK(binary("rem.s32", "s32", -7, 2) == -1);
  CHECK(binary("div.u32", "u32", 7, 0) == 4294967295.0);
  CHECK(binary("div.s64", "s64", -9e18, -1) == 9e18);
  CHECK(binary("rem.s64", "s64", -9, -1) == 0);
  CHECK(binary("div.u64", "u64", 9, 2) == 4);
}

TEST_CASE("bits") {
  CHECK(compute("shl.b32", {"b32", "b32", "u32"}, {1, 31}) == 2147483648.0);
  CHECK(compute("shl.b32", {"b32", "b32", "u32"}, {1, 32}) == 0);
  CHECK(compute("shr.s32", {"s32", "s32", "u32"}, {-8, 40}) == -1);
  CHECK(compute("shr.u32", {"u32", "u32", "u32"}, {-8, 28}) == 15);
  CHECK(compute("shr.u64", {"u64", "u64", "u32"}, {8, 64}) == 0);
  CHECK(binary("and.b32", "b32", 12, 10) == 8);
  CHECK(binary("or.b64", "b64", 12, 10) == 14);
  CHECK(binary("xor.b32", "b32", 12, 10) == 6);
  CHECK(unary("not.b32", "b32", 0) == 4294967295.0);
  CHECK(compute("not.pred", {"pred", "pred"}, {1}) == 0);
  CHECK(compute("xor.pred", {"pred", "pred", "pred"}, {1, 1}) == 0);
  CHECK(compute("clz.b32", {"u32", "b32"}, {1}) == 31);
  CHECK(compute("clz.b64", {"u32", "b64"}, {0}) == 64);
  CHECK(compute("bfind.u32", {"u32", "u32"}, {40}) == 5);
  CHECK(compute("bfind.shiftamt.u32", {"u32", "u32"}, {40}) == 26);
  CHECK(compute("bfind.shiftamt.u64", {"u32", "u64"}, {0}) == 4294967295.0);
  CHECK(compute("popc.b32", {"u32", "b32"}, {255}) == 8);
  CHECK(unary("brev.b32", "b32", 1) == 2147483648.0);
  CHECK(compute("bfe.u32", {"u32", "u32", "u32", "u32"}, {0xabcd, 4, 8}) == 0xbc);
  CHECK(compute("bfe.s32", {"s32", "s32", "u32", "u32"}, {0xf0, 4, 4}) == -1);
  CHECK(compute("bfi.b32", {"b32", "b32", "b32", "u32", "u32"}, {0xf, 0xabcd, 4, 4}) == 0xabfd);
  CHECK(compute("prmt.b32", {"b32", "b32", "b32", "b32"}, {0x33221180, 0x77665544, 0x7048}) == 0x778044ff);
  CHECK(compute("shf.l.wrap.b32", {"b32", "b32", "b32", "u32"}, {2147483648.0, 1, 33}) == 3);
  CHECK(compute("shf.r.clamp.b32", {"b32", "b32", "b32", "u32"}, {5, 7, 99}) == 7);
  CHECK(compute("selp.b32", {"b32", "b32", "b32", "pred"}, {5, 7, 0}) == 7);
}

TEST_CASE("sums and products of several words take and leave carries") {
  DeviceMemory memory(1 << 20);
  const Array<std::uint64_t> in(memory, {0xffffffffffffffff, 3, 1, 5});  // (2^64 - 1) + 3 * 2^64, and 1 + 5 * 2^64
  const Array<std::uint64_t> out(memory, {0, 0, 0, 0, 0, 0});
  run_kernel(kernel_text("ld.global.v2.u64 {%rd1, %rd2}, [%a0]; ld.global.v2.u64 {%rd3, %rd4}, [%a0+16];\n"
                         "add.cc.u64 %rd5, %rd1, %rd3; addc.u64 %rd6, %rd2, %rd4;\n"
                         "sub.cc.u64 %rd7, %rd3, %rd1; subc.u64 %rd8, %rd4, %rd2;\n"
                         "mad.lo.cc.u64 %rd9, %rd1, %rd1, %rd1; madc.hi.u64 %rd10, %rd1, %rd1, 0;\n"
                         "st.global.v2.u64 [%a1], {%rd5, %rd6}; st.global.v2.u64 [%a1+16], {%rd7, %rd8};\n"
                         "st.global.v2.u64 [%a1+32], {%rd9, %rd10};",
                         2),
             memory, {in.address(), out.address()});
  const std::uint64_t highest = ~std::uint64_t{0};
  CHECK(out.values() == std::vector<std::uint64_t>{0, 9, 2, 1, 0, highest});
}

TEST_CASE("floating-point numbers round to the nearest, and in other directions where asked") {
  const double third = 1.0 / 3;
  CHECK(binary("div.rn.f64", "f64", 1, 3) == third);
  CHECK(binary("div.rn.f32", "f32", 1, 3) == double{1.0F / 3.0F});
  CHECK(binary("div.rp.f64", "f64", 1, 3) == std::nextafter(third, 1));
  CHECK(binary("div.rz.f64", "f64", -1, 3) == -third);
  CHECK(binary("add.rm.f32", "f32", 1, 1e-20) == 1);
  CHECK(binary("add.rp.f32", "f32", 1, 1e-20) == double{std::nextafter(1.0F, 2.0F)});
  CHECK(binary("add.rz.f32", "f32", -1, 1e-20) == -double{std::nextafter(1.0F, 0.0F)});
  CHECK(compute("fma.rn.f64", {"f64", "f64", "f64", "f64"}, {1 + 0x1p-52, 1 + 0x1p-52, -(1 + 0x1p-51)}) == 0x1p-104);
  CHECK(compute("fma.rm.f32", {"f32", "f32", "f32", "f32"}, {1, 1, -0x1p-60}) == double{std::nextafter(1.0F, 0.0F)});
  CHECK(unary("sqrt.rn.f64", "f64", 2) == std::sqrt(2.0));
  CHECK(std::isnan(unary("sqrt.rn.f64", "f64", -1)));
  CHECK(unary("rcp.rn.f32", "f32", 0) == kInfinity);
  CHECK(binary("add.ftz.f32", "f32", 1e-40, 0) == 0);
  CHECK(binary("add.f32", "f32", 1e-40, 0) > 0);
  CHECK(binary("add.sat.f32", "f32", 1, 1) == 1);
}

TEST_CASE("the lower and the higher of numbers and what is none") {
  CHECK(binary("min.f32", "f32", kNan, 2) == 2);
  CHECK(binary("max.f64", "f64", 2, kNan) == 2);
  CHECK(std::isnan(binary("min.NaN.f32", "f32", kNan, 2)));
  CHECK(binary("max.NaN.f32", "f32", 1, 2) == 2);
  CHECK(std::signbit(binary("min.f64", "f64", 0.0, -0.0)));
  CHECK_FALSE(std::signbit(binary("max.f64", "f64", -0.0, 0.0)));
  CHECK(binary("copysign.f64", "f64", -1, 3) == -3);
  CHECK(binary("min.s32", "s32", -1, 2) == -1);
  CHECK(binary("max.u32", "u32", -1, 2) == 4294967295.0);
}

TEST_CASE("comparisons know what is no number") {
  for (const char* ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"})
    CHECK(compare(fmt::format("setp.{}.f64", ordered), "f64", kNan, 1) == 0);
  for (const char* unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    CHECK(compare(fmt::format("setp.{}.f32", unordered), "f32", kNan, 1) == 1);
  CHECK(compare("setp.lt.f64", "f64", 1, 2) == 1);
  CHECK(compare("setp.geu.f64", "f64", 1, 2) == 0);
  CHECK(compare("setp.lt.s32", "s32", -1, 1) == 1);
  CHECK(compare("setp.lt.u32", "u32", -1, 1) == 0);
  CHECK(compare("setp.hi.u64", "u64", 3, 1) == 1);
}

TEST_CASE("conversions round, saturate and say what becomes of what is no number") {
  CHECK(convert("cvt.rni.s32.f64", "s32", "f64", 2.5) == 2);
  CHECK(convert("cvt.rzi.s32.f32", "s32", "f32", -2.9) == -2);
  CHECK(convert("cvt.rmi.f64.f64", "f64", "f64", -2.1) == -3);
  CHECK(convert("cvt.rpi.f32.f32", "f32", "f32", 2.1) == 3);
  CHECK(convert("cvt.rzi.s32.f64", "s32", "f64", 1e20) == 2147483647);
  CHECK(convert("cvt.rzi.u32.f32", "u32", "f32", -5) == 0);
  CHECK(convert("cvt.rzi.s32.f32", "s32", "f32", kNan) == 0);
  CHECK(convert("cvt.rzi.s32.f64", "s32", "f64", kNan) == -2147483648.0);
  CHECK(convert("cvt.rzi.s64.f32", "s64", "f32", kNan) == -9223372036854775808.0);
  CHECK(convert("cvt.rn.f32.f64", "f32", "f64", 0.1) == double{0.1F});
  CHECK(convert("cvt.rp.f32.f64", "f32", "f64", 1 + 1e-12) == double{std::nextafter(1.0F, 2.0F)});
  CHECK(convert("cvt.rn.f32.s32", "f32", "s32", 16777217) == 16777216);
  CHECK(convert("cvt.rn.f64.u32", "f64", "u32", 4294967295.0) == 4294967295.0);
  CHECK(convert("cvt.sat.f32.f32", "f32", "f32", kNan) == 0);
  CHECK(convert("cvt.s64.s32", "s64", "s32", -3) == -3);
  CHECK(convert("cvt.u64.u32", "u64", "u32", -3) == 4294967293.0);
  CHECK(convert("cvt.s32.s8", "s32", "s32", 200) == -56);
  CHECK(convert("cvt.u16.u32", "u16", "u32", 65537) == 1);
  CHECK(convert("cvt.sat.s8.s32", "s32", "s32", 300) == 127);
}

TEST_CASE("approximated functions are exact where PTX says so") {
  CHECK(unary("ex2.approx.f32", "f32", 3) == 8);
  CHECK(unary("ex2.approx.ftz.f32", "f32", -140) == 0);
  CHECK(unary("lg2.approx.f32", "f32", 8) == 3);
  CHECK(unary("lg2.approx.f32", "f32", 0) == -kInfinity);
  CHECK(unary("rcp.approx.ftz.f32", "f32", 1e-40) == kInfinity);
  CHECK(unary("rsqrt.approx.f32", "f32", 4) == 0.5);
  CHECK(unary("rcp.approx.ftz.f64", "f64", 4) == 0.25);
  CHECK((std::bit_cast<std::uint64_t>(unary("rcp.approx.ftz.f64", "f64", 3)) & 0xffffffff) == 0);
  CHECK(std::fabs(unary("sin.approx.f32", "f32", 1) - std::sin(1)) < 1e-7);
}

TEST_CASE("a register is a vector of narrower ones") {
  DeviceMemory memory(1 << 20);
  const Array<std::uint64_t> array(memory, {0x1122334455667788});
  run_kernel(kernel_text("ld.global.u64 %rd1, [%a0]; mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r2, %r1};\n"
                         "mov.b32 {_, %h1}, %r1; cvt.u32.u16 %r3, %h1; mov.b64 {%r4, _}, %rd2; add.u32 %r4, %r4, %r3;\n"
                         "mov.b64 %rd2, {%r4, %r1}; st.global.u64 [%a0], %rd2;",
                         1),
             memory, {array.address()});
  CHECK(array.values()[0] == 0x5566778811223344 + 0x5566);
}

TEST_CASE("an opcode that is unknown is refused by its name and line") {
  CHECK(fault_of("  fma.rn.f16 %h1, %h2, %h3, %h4;", {}) ==
        "kernel k, PTX line 15: fma.rn.f16: this instruction is unknown to the PTX emulator");
  CHECK(fault_of("  add.f64 %d1, %d2, %f1;", {}) == "kernel k, PTX line 15: add.f64: %f1 has 4 bytes, expected 8");
  CHECK(fault_of("  ld.global.v3.f32 {%f1, %f2, %f3}, [%a0];", {}) ==
        "kernel k, PTX line 15: ld.global.v3.f32: this instruction is unknown to the PTX emulator");
}
