#pragma once
// Operations: the instructions that each statement of a LoopProgram becomes, by class.
#include <unordered_map>
#include <vector>

#include "compiler/schedule/loop_tree.h"
#include "compiler/schedule/machine.h"

namespace moxie {

struct OperationCount {
  OperationClass operation = OperationClass::Arithmetic;
  double count = 0;
  bool operator==(const OperationCount&) const = default;
};

class Operations {
 public:
  Operations(const LoopTree& tree, const Machine& machine);

  /// Of one execution; for all lanes, in a vector loop. Loops themselves have none.
  const std::vector<OperationCount>& of(const Statement& statement) const { return counts_.at(&statement); }
  /// The number of instructions.
  double instructions(const Statement& statement) const;
  /// Cycles from the operands to the value.
  double latency(ValueId id) const { return latencies_.at(id); }
  /// The length of the longest lane run (compiler/loop/lane_runs.h); 0 without any.
  std::size_t longest_run() const { return longest_run_; }
  /// Vector registers that a value takes; 0 if it does not vary between lanes.
  double registers(ValueId id) const;

 private:
  struct Lanes {
    Symbol variable;
    double masked;         // the fraction of partial iterations, whose accesses are masked
    bool diverge = false;  // inside a loop of which each lane has its own iterations
  };
  using Counts = std::vector<OperationCount>;

  bool compares_indices(const op::Call& call) const;
  void find_fused(const Block& block);
  void count(const Block& block);
  void count_runs(const Block& block);
  Counts count(const stmt::Let& s);
  Counts count(const stmt::SetVar& s) const;
  Counts count(const stmt::Store& s) const;
  Counts count(const stmt::StoreArray& s) const;
  Counts count(const stmt::Check& s) const;
  Counts count(const stmt::For&) const { return {}; }
  Counts count(const Value& value, const op::Constant& o) const;
  Counts count(const Value& value, const op::Number& o) const;
  Counts count(const Value& value, const op::Load& o) const;
  Counts count(const Value& value, const op::Subscript& o) const;
  Counts count(const Value& value, const op::LoadArray& o) const;
  Counts count(const Value& value, const op::ReadVar& o) const;
  Counts count(const Value& value, const op::Call& o) const;
  Counts count(const Value& value, const op::Convert& o) const;
  Counts count(const Value& value, const op::Random& o) const;
  Counts count(const Value& value, const op::CombineLanes& o) const;
  Counts count(const Value& value, const op::PrefixLanes& o) const;
  Counts count(const Value& value, const op::LastLane& o) const;
  /// Accesses of `registers` registers that lie side by side.
  Counts access(OperationClass whole, OperationClass masked, double registers) const;
  Counts power(const Value& value, double exponent) const;
  Counts divisions(const Value& value, double count) const;
  Counts strided_load(double stride, double registers, bool guarded) const;
  Counts roots(const Value& value) const;
  double masked_fraction(const stmt::For& loop) const;
  double latency(const Value& value, const Counts& counts) const;
  double width(const Value& value) const;
  double registers(ValueType type) const;

  const LoopTree& tree_;
  const LoopProgram& program_;
  const Machine& machine_;
  std::vector<std::vector<double>> strides_;  // of buffers
  std::vector<double> fused_;                 // per value: multiplications that are part of a multiply-add
  std::vector<bool> only_compared_;           // per value: indices that are compared with others, and not read else
  std::optional<Lanes> lanes_;                // of the loop around the statement
  std::unordered_map<const Statement*, Counts> counts_;
  std::vector<double> latencies_;
  std::size_t longest_run_ = 0;
};

}  // namespace moxie
