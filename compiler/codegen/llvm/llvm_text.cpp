#include "compiler/codegen/llvm/llvm_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "compiler/codegen/llvm/kernel_writer.h"

namespace moxie {
namespace {

using llvm_ir::LanePlan;

std::string llvm_comment(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return "; " + text + "\n";
}

/// Parameters, not loads, so that each can be declared to alias no other.
std::vector<std::string> parameters(const LoopProgram& program) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const char* access = program.buffers[i].written ? "" : "readonly ";
    result.push_back(fmt::format("ptr noalias nocapture noundef {}%buffer{}", access, i));
  }
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    result.push_back(fmt::format("ptr noalias nocapture noundef align 64 %array{}", i));
  }
  for (std::size_t i = 0; i < program.arguments.size(); ++i)
    result.push_back(fmt::format("i64 noundef %argument{}", i));
  result.push_back("ptr noalias nocapture noundef %status");
  return result;
}

/// Where the arrays begin whose sizes depend on dims: behind all others, one after the other.
std::string measured_arrays(const LoopProgram& program, const LanePlan& plan) {
  using namespace llvm_ir;
  if (plan.scratch.blocks.empty()) return "";
  TextBuilder ir(plan.avx512);
  Addressing addressing(ir);
  const auto integer = [&](std::int64_t value) { return ir.integer(Scalar::i64, 1, value); };
  for (std::size_t i = 0; i < program.arguments.size(); ++i)
    addressing.open(Symbol::dim(program.arguments[i]), {Scalar::i64, 1, fmt::format("%argument{}", i)});
  Val offset = integer(plan.scratch.fixed_bytes);
  auto block = plan.scratch.blocks.begin();
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    if (plan.array_offsets[i]) continue;
    ir.line(fmt::format("%array{} = getelementptr i8, ptr %scratch, {}", i, typed(offset)));
    Val bytes = integer(block->element_bytes);
    for (const Affine& extent : block->extents) {
      const Val count = addressing.value(extent);
      bytes = ir.binary("mul", bytes, ir.select(ir.icmp("sgt", count, integer(0)), count, integer(0)));
    }
    const Val padded = ir.binary("add", bytes, integer(ScratchSize::kBlockAlignment - 1));
    offset = ir.binary("add", offset, ir.binary("and", padded, integer(-ScratchSize::kBlockAlignment)));
    ++block;
  }
  return ir.text();
}

/// The function that a caller sees: it spreads the arrays of pointers and numbers over the parameters of the body.
std::string entry_function(const LoopProgram& program, const LanePlan& plan) {
  std::string text =
      fmt::format("define hidden void {}(ptr %buffers, ptr %arguments, ptr %scratch, ptr %status) #0 {{\nentry:\n",
                  llvm_global(program.name));
  std::vector<std::string> operands;
  const auto load = [&](std::string_view type, std::string_view from, std::string_view name, std::size_t i) {
    text += fmt::format("  %{2}{3}.at = getelementptr {0}, ptr %{1}, i64 {3}\n  %{2}{3} = load {0}, ptr %{2}{3}.at\n",
                        type, from, name, i);
    operands.push_back(fmt::format("{} %{}{}", type, name, i));
  };
  for (std::size_t i = 0; i < program.buffers.size(); ++i) load("ptr", "buffers", "buffer", i);
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    if (plan.array_offsets[i])
      text += fmt::format("  %array{} = getelementptr i8, ptr %scratch, i64 {}\n", i, *plan.array_offsets[i]);
    operands.push_back(fmt::format("ptr %array{}", i));
  }
  for (std::size_t i = 0; i < program.arguments.size(); ++i) load("i64", "arguments", "argument", i);
  text += measured_arrays(program, plan);
  operands.push_back("ptr %status");
  return text + fmt::format("  call void {}({})\n  ret void\n}}\n", llvm_global(program.name + ".body"),
                            fmt::join(operands, ", "));
}

/// Only kernels that have f16 name the instructions for it, so that the texts of others stay what they are.
std::string half_features(const LoopProgram& program, const VectorMachine& machine) {
  const bool has_halves = std::ranges::count(program.buffers, DType::f16, &BufferDecl::dtype) > 0;
  return has_halves && machine.features.find("+avx2") != std::string::npos ? ",+f16c" : "";
}

}  // namespace

std::string llvm_global(std::string_view name) {
  std::string quoted;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && (std::isalnum(byte) != 0 || c == '.' || c == '_' || c == '-' || c == '$');
    quoted += plain ? std::string(1, c) : fmt::format("\\{:02X}", byte);
  }
  return fmt::format("@\"{}\"", quoted);
}

LlvmModule llvm_module(const LoopProgram& program, const VectorMachine& machine) {
  const LanePlan plan = llvm_ir::lane_plan(program, machine);
  llvm_ir::KernelWriter writer(program, plan);
  const std::string body = writer.write();

  std::string text = llvm_comment(fmt::format("kernel {}, {} lanes", program.name, plan.lanes));
  for (const std::string& line : program.comments) text += llvm_comment(line);
  text += fmt::format("source_filename = \"{} precision\"\n", to_string(program.precision));
  text += fmt::format("target triple = \"{}\"\n\n", machine.triple);
  text += fmt::format("{} = private unnamed_addr constant [{} x i64] zeroinitializer, align 8\n\n", llvm_ir::kZeros,
                      plan.lanes);
  text += entry_function(program, plan);
  text += fmt::format("\ndefine internal void {}({}) #1 {{\n", llvm_global(program.name + ".body"),
                      fmt::join(parameters(program), ", "));
  const std::size_t body_begin = text.size();
  text += body + "}\n\n";
  text += writer.declarations();
  const std::string common = fmt::format(
      "nounwind \"no-builtins\" \"no-trapping-math\"=\"true\" \"frame-pointer\"=\"none\" "
      "\"prefer-vector-width\"=\"{0}\" "
      "\"min-legal-vector-width\"=\"{0}\" \"target-cpu\"=\"{1}\" \"target-features\"=\"{2}\"",
      machine.vector_bits, machine.cpu, machine.features + half_features(program, machine));
  text += fmt::format("\nattributes #0 = {{ {0} }}\nattributes #1 = {{ noinline {0} }}\n", common);
  text += "\n!0 = !{!\"branch_weights\", i32 1, i32 1048576}\n";
  LineTable lines = writer.marks().table(text, body_begin);
  return {std::move(text), std::move(lines)};
}

std::string llvm_text(const LoopProgram& program, const VectorMachine& machine) {
  return llvm_module(program, machine).text;
}

}  // namespace moxie
