#include "compiler/codegen/llvm/lane_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "compiler/loop/accumulations.h"
#include "compiler/loop/lane_count.h"

namespace moxie {
namespace llvm_ir {
namespace {

/// A random number is one long chain of operations: two of them side by side keep the processor busy. The registers of
/// AVX-512 suffice for both.
constexpr int kRegistersPerDraw = 2;

/// The number of the vector loop in which something is used; 0 stands for outside of them all.
using Position = int;

/// Notes where things are used, and which of them hold something from one place to another.
class Uses {
 public:
  explicit Uses(std::size_t count) : first_(count), started_(count), many_(count), carried_(count) {}
  /// Each iteration of the place sets the thing before it reads it.
  void start(std::uint32_t id, Position place) {
    note(id, place, true);
    started_[id] = place;
  }
  void note(std::uint32_t id, Position place) { note(id, place, started_.at(id) == place); }
  /// For each thing, whether several places use it and one of them does not start it.
  std::vector<bool> outlive() const {
    std::vector<bool> result;
    std::ranges::transform(many_, carried_, std::back_inserter(result), std::logical_and<>());
    return result;
  }

 private:
  void note(std::uint32_t id, Position place, bool is_started) {
    if (!first_.at(id)) first_[id] = place;
    if (*first_[id] != place) many_[id] = true;
    if (!is_started) carried_[id] = true;
  }

  std::vector<std::optional<Position>> first_, started_;
  std::vector<bool> many_, carried_;
};

/// Visits the statements of a program once.
class Survey {
 public:
  explicit Survey(const LoopProgram& program)
      : vars(program.vars.size()),
        arrays(program.arrays.size()),
        var_copies(program.vars.size(), 1),
        program_(program) {
    block(program.body, 0);
  }

  Uses vars, arrays;
  std::vector<int> var_copies;

 private:
  void block(const Block& statements, Position place) {
    for (const Statement& statement : statements) std::visit([&](const auto& s) { visit(s, place); }, statement);
  }
  void visit(const stmt::Let& s, Position place) {
    const Value& value = program_.values.at(s.id);
    if (const auto* read = std::get_if<op::ReadVar>(&value.operation)) vars.note(read->var, place);
    if (const auto* load = std::get_if<op::LoadArray>(&value.operation)) arrays.note(load->array, place);
  }
  void visit(const stmt::SetVar& s, Position place) {
    if (place != 0 && depth_ == 0)
      vars.start(s.var, place);
    else
      vars.note(s.var, place);
  }
  void visit(const stmt::StoreArray& s, Position place) { arrays.note(s.array, place); }
  void visit(const stmt::For& s, Position place) {
    if (s.interleave > 1)
      for (const Accumulation& accumulation : accumulations(program_, s.body)) {
        for (const VarId var : {accumulation.var, accumulation.position.value_or(accumulation.var)})
          var_copies.at(var) = std::max(var_copies.at(var), s.interleave);
      }
    const int around = std::exchange(depth_, s.vector ? 0 : depth_ + 1);
    block(s.body, s.vector ? ++loops_ : place);
    depth_ = around;
  }
  void visit(const stmt::Store&, Position) {}
  void visit(const stmt::Check&, Position) {}

  const LoopProgram& program_;
  int loops_ = 0;
  int depth_ = 0;  // how many loops are open inside the vector loop
};

void place(const ArrayDecl& array, LanePlan& plan) {
  ScratchBlock block{bytes_of(array.dtype) * (array.varying ? plan.lanes : 1), array.extents};
  if (!std::ranges::all_of(block.extents, &Affine::is_constant)) {
    plan.array_offsets.emplace_back();
    plan.scratch.blocks.push_back(std::move(block));
    return;
  }
  plan.array_offsets.emplace_back(plan.scratch.fixed_bytes);
  plan.scratch.fixed_bytes =
      checked_add(plan.scratch.fixed_bytes, ScratchSize{0, {std::move(block)}}.bytes([](Symbol) { return 0; }));
}

}  // namespace

LanePlan lane_plan(const LoopProgram& program, const VectorMachine& machine) {
  const Survey survey(program);
  LanePlan plan;
  plan.avx512 = machine.features.find("+avx512f") != std::string::npos;
  // Every processor with AVX2 has F16C; SSE2 alone does not round.
  plan.converts = machine.features.find("+avx2") != std::string::npos || machine.triple.starts_with("aarch64");
  plan.lanes = lane_count(program, machine.vector_bits, plan.avx512 ? kRegistersPerDraw : 1);
  plan.var_outlives_round = survey.vars.outlive();
  plan.array_outlives_round = survey.arrays.outlive();
  plan.var_copies = survey.var_copies;
  for (const ArrayDecl& array : program.arrays) place(array, plan);
  return plan;
}

}  // namespace llvm_ir

int lanes_for(const LoopProgram& program, const VectorMachine& machine) {
  return llvm_ir::lane_plan(program, machine).lanes;
}

ScratchSize scratch_size(const LoopProgram& program, const VectorMachine& machine) {
  return llvm_ir::lane_plan(program, machine).scratch;
}

}  // namespace moxie
