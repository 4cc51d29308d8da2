// Objects of the plugin, whole, cut and with flipped bits.
#include "runtime/cpu/object_loader.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "compiler/support/error.h"
#include "runtime/cpu/plugin.h"
#include "runtime/cpu/relocation.h"
#include "tests/loop/sample_programs.h"
#include "tests/runtime/kernel_harness.h"

using namespace moxie;

namespace {

/// y[i] = f(i, i) for all i, and the truth of logical functions as a number.
std::string object_for(const VectorMachine& machine, const ScalarFunction& f = function("exp"),
                       DType dtype = DType::f32) {
  samples::Builder b;
  b.type = dtype == DType::f32 ? ValueType::f32 : ValueType::f64;
  b.program.name = "kernel";
  b.program.arguments = {"N"};
  b.program.buffers = {samples::output("y", {Symbol::dim("N")})};
  b.program.buffers[0].dtype = dtype;
  b.varying = true;
  Block block;
  const ValueId number = b.let(block, op::Number{samples::i0()});
  const ValueId truth = b.call(block, "<", {number, b.constant(block, 3)});
  const bool logic = f.name == "and" || f.name == "or" || f.name == "not";
  std::vector<ValueId> args(static_cast<std::size_t>(f.arity < 0 ? 2 : f.arity), logic ? truth : number);
  if (f.name == "where") args[0] = truth;
  ValueId value = b.call(block, f.name, args);
  if (f.result == ResultType::Truth) value = b.call(block, "where", {value, number, b.constant(block, 0)});
  block.push_back(stmt::Store{0, {samples::i0()}, value});
  stmt::For loop = samples::loop(samples::i0(), Range::extent(Symbol::dim("N")), block);
  loop.vector = true;
  b.program.body = {loop};
  return compile_llvm(llvm_text(b.program, machine), machine);
}

std::uint16_t elf_machine(const MachineLevel& level) { return level.name == "aarch64" ? EM_AARCH64 : EM_X86_64; }

/// The whole truth about bytes that may be damaged: they load, or they are refused with a CacheError.
bool loads(std::string_view object, std::uint16_t machine = host_elf_machine()) {
  try {
    return LoadedObject(object, machine).symbol("kernel") != nullptr;
  } catch (const CacheError&) {
    return false;
  }
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const CacheError& error) {
    return error.what();
  }
  return "";
}

std::uint32_t relocated(std::uint32_t instruction, std::uint32_t type, std::uint64_t target, std::uint64_t place) {
  std::array<std::byte, 4> bytes = std::bit_cast<std::array<std::byte, 4>>(instruction);
  apply_relocation(EM_AARCH64, type, bytes, target, place);
  return std::bit_cast<std::uint32_t>(bytes);
}

}  // namespace

TEST_CASE("objects of both processor families load") {
  CHECK(loads(object_for(machine_level("x86-64-v4")), EM_X86_64));
  CHECK(loads(object_for(machine_level("x86-64")), EM_X86_64));
  CHECK(loads(object_for(machine_level("aarch64")), EM_AARCH64));
}

TEST_CASE("no function of the language needs an outside symbol, on any processor") {
  for (const MachineLevel& level : machine_levels()) {
    CAPTURE(level.name);
    for (const ScalarFunction& f : scalar_functions()) {
      CAPTURE(f.name);
      for (const DType dtype : {DType::f32, DType::f64})
        CHECK(loads(object_for(level.machine, f, dtype), elf_machine(level)));
    }
  }
}

TEST_CASE("an object for another processor, and a symbol that is not there, are refused") {
  const std::string object = object_for(machine_level("aarch64"));
  CHECK(refusal([&] { LoadedObject(object, EM_X86_64); }) ==
        "object code is damaged: it is for ELF machine 183, not 62");
  CHECK(refusal([&] { LoadedObject(object, EM_AARCH64).symbol("other"); }) == "object code has no symbol 'other'");
}

TEST_CASE("an object that needs outside symbols or variables is refused") {
  const VectorMachine& machine = host_machine();
  const auto refusal_of = [&](const char* text) { return refusal([&] { LoadedObject{compile_llvm(text, machine)}; }); };
  CHECK(refusal_of("declare void @outside()\ndefine void @kernel() {\n call void @outside()\n ret void\n}")
            .find("'outside'") != std::string::npos);
  CHECK(refusal_of("@state = global i32 1\ndefine void @kernel() {\n ret void\n}").find("variables") !=
        std::string::npos);
}

TEST_CASE("a cut object never crashes") {
  for (const MachineLevel& level : machine_levels()) {
    const std::string object = object_for(level.machine);
    const std::uint16_t machine = elf_machine(level);
    for (std::size_t size = 0; size < object.size(); size += 3)
      CHECK_FALSE(loads(std::string_view(object).substr(0, size), machine));
  }
}

TEST_CASE("an object with flipped bits never crashes") {
  for (const MachineLevel& level : machine_levels()) {
    std::string object = object_for(level.machine);
    const std::uint16_t machine = elf_machine(level);
    int refused = 0;
    for (std::size_t byte = 0; byte < object.size(); ++byte) {
      for (const char flip : {char(1), char(0x80), char(0xFF)}) {
        object[byte] = static_cast<char>(object[byte] ^ flip);
        refused += loads(object, machine) ? 0 : 1;
        object[byte] = static_cast<char>(object[byte] ^ flip);
      }
    }
    CHECK(refused > 0);
  }
}

TEST_CASE("aarch64 relocations") {
  // adrp x0, label; add x0, x0, :lo12:label; ldr q0, [x0, :lo12:label]; bl label
  CHECK(relocated(0x90000000, R_AARCH64_ADR_PREL_PG_HI21, 0x7FFF12345678, 0x7FFF12340000) == 0xB0000020);
  CHECK(relocated(0x91000000, R_AARCH64_ADD_ABS_LO12_NC, 0x12345678, 0) == (0x91000000 | 0x678 << 10));
  CHECK(relocated(0x3DC00000, R_AARCH64_LDST128_ABS_LO12_NC, 0x12345670, 0) == (0x3DC00000 | 0x67 << 10));
  CHECK(relocated(0x94000000, R_AARCH64_CALL26, 0x1000, 0x1008) == 0x97FFFFFE);
  CHECK_THROWS_AS(relocated(0x3DC00000, R_AARCH64_LDST128_ABS_LO12_NC, 0x12345678, 0), CacheError);
  CHECK_THROWS_AS(relocated(0x94000000, R_AARCH64_CALL26, std::uint64_t{1} << 40, 0), CacheError);
  CHECK_THROWS_AS(relocated(0, 9999, 0, 0), CacheError);
}
