#include "compiler/codegen/llvm/text_builder.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moxie;
using namespace moxie::llvm_ir;

namespace {

std::string power_text(double exponent) {
  TextBuilder builder;
  const Val result = emit_function(builder, "pow", {{Scalar::f32, 1, "%x"}, builder.number(Scalar::f32, 1, exponent)});
  return builder.text() + result.text;
}

}  // namespace

TEST_CASE("literals are exact") {
  TextBuilder builder;
  CHECK(builder.number(Scalar::f64, 1, 0.1).text == "0x3FB999999999999A");
  CHECK(builder.number(Scalar::f32, 1, 0.1).text == "0x3FB99999A0000000");
  CHECK(builder.number(Scalar::f32, 16, 1).text == "splat (float 0x3FF0000000000000)");
  CHECK(builder.number(Scalar::f64, 1, -INFINITY).text == "0xFFF0000000000000");
  CHECK(builder.integer(Scalar::i64, 4, -3).text == "splat (i64 -3)");
  CHECK(builder.integer(Scalar::i1, 1, 1).text == "true");
  CHECK(builder.text().empty());
}

TEST_CASE("types have their LLVM names") {
  CHECK(type_name(Scalar::f32, 16) == "<16 x float>");
  CHECK(type_name(Scalar::f64, 1) == "double");
  CHECK(type_name(Scalar::i1, 4) == "<4 x i1>");
}

TEST_CASE("a splat of a literal is a literal, of a value two instructions") {
  TextBuilder builder;
  CHECK(builder.splat(builder.number(Scalar::f32, 1, 2), 8).text == "splat (float 0x4000000000000000)");
  CHECK(builder.splat({Scalar::f32, 1, "%x"}, 8).text == "%v1");
  CHECK(builder.text() ==
        "  %v0 = insertelement <8 x float> poison, float %x, i64 0\n"
        "  %v1 = shufflevector <8 x float> %v0, <8 x float> poison, <8 x i32> zeroinitializer\n");
}

TEST_CASE("an intrinsic is declared once for each type") {
  TextBuilder builder;
  const Val x{Scalar::f64, 2, "%x"};
  builder.unary_intrinsic("sqrt", builder.unary_intrinsic("sqrt", x));
  builder.unary_intrinsic("sqrt", {Scalar::f32, 1, "%y"});
  CHECK(builder.declarations() ==
        "declare <2 x double> @llvm.sqrt.v2f64(<2 x double>)\ndeclare float @llvm.sqrt.f32(float)\n");
}

TEST_CASE("conversions choose their instruction") {
  TextBuilder builder;
  builder.convert({Scalar::i1, 1, "%a"}, Scalar::f32);
  builder.convert({Scalar::i32, 1, "%b"}, Scalar::f64);
  builder.convert({Scalar::f64, 1, "%c"}, Scalar::f32);
  builder.convert({Scalar::f32, 1, "%d"}, Scalar::i64);
  builder.extend({Scalar::i32, 1, "%e"}, Scalar::i64, false);
  CHECK(builder.text() ==
        "  %v0 = uitofp i1 %a to float\n"
        "  %v1 = sitofp i32 %b to double\n"
        "  %v2 = fptrunc double %c to float\n"
        "  %v3 = fptosi float %d to i64\n"
        "  %v4 = zext i32 %e to i64\n");
  CHECK(builder.convert({Scalar::f32, 1, "%f"}, Scalar::f32).text == "%f");
}

TEST_CASE("constant exponents are multiplied out") {
  CHECK(power_text(0) == "0x3FF0000000000000");
  CHECK(power_text(1) == "%x");
  CHECK(power_text(2) == "  %v0 = fmul contract float %x, %x\n%v0");
  CHECK(power_text(3) == "  %v0 = fmul contract float %x, %x\n  %v1 = fmul contract float %v0, %x\n%v1");
  CHECK(power_text(-1) == "  %v0 = fdiv contract float 0x3FF0000000000000, %x\n%v0");
  CHECK(power_text(0.5) == "  %v0 = call float @llvm.sqrt.f32(float %x)\n%v0");
  CHECK(power_text(2.5).find("@llvm.sqrt") != std::string::npos);
  CHECK(power_text(2.25).find("@llvm.sqrt") == std::string::npos);
}
