#pragma once
// KernelWriter: writes the statements of a LoopProgram as LLVM instructions.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/llvm/addressing.h"
#include "compiler/codegen/llvm/lane_plan.h"
#include "compiler/codegen/llvm/memory.h"
#include "compiler/codegen/llvm/stored_elements.h"
#include "compiler/loop/accumulations.h"
#include "compiler/loop/known_values.h"
#include "compiler/loop/lane_runs.h"
#include "compiler/loop/statement_lines.h"

namespace moxie::llvm_ir {

/// The body of one function, whose parameters are %buffer0..., %array0..., %argument0... and %status.
class KernelWriter {
 public:
  KernelWriter(const LoopProgram& program, const LanePlan& plan);

  /// Everything between the braces; call once.
  std::string write();
  /// Which lines of the printed LoopProgram the lines of what write() gave were made from.
  const LineMarks& marks() const { return marks_; }
  /// Of the intrinsics used.
  std::string declarations() const { return ir_.declarations(); }

 private:
  /// The vector loop around the current statement.
  struct Round {
    Symbol variable;
    std::optional<Val> active;             // absent: every lane
    bool whole = false;                    // the first lane is a multiple of the lanes
    std::optional<Symbol> last_lane = {};  // the value of the variable in the last active lane, where a loop needs it
  };
  struct LoopLabels {
    std::string before, enter, body, latch, leave, after;
  };
  /// Steps of `width` from `first` on, as long as all of a step lies within `last`.
  struct Steps {
    Val first, last;
    std::int64_t width;
    std::optional<std::int64_t> count;  // if known
  };

  void allocate_vars();

  // ---- statements ----
  void write(const Block& block);
  void write(const Statement& statement);
  void write_run(const Block& block, const LaneRun& run);
  void write(const stmt::Let& s);
  void write(const stmt::SetVar& s);
  void write(const stmt::Store& s);
  void write(const stmt::StoreArray& s);
  void write(const stmt::For& s);
  void write(const stmt::Check& s);
  Val repeat(
      const Steps& steps, const std::function<void(const Val&)>& body, const std::function<void()>& enter = [] {},
      const std::function<void()>& leave = [] {});
  Val write_whole(const stmt::For& s, const Steps& steps);
  Val in_blocks(const stmt::For& s, const Steps& steps, const std::function<Val(const Steps&)>& write_steps);
  /// The active lanes of a partial iteration of the vector loop, and the last index of the loop.
  struct Partial {
    Val active, last;
  };
  void write_iteration(const stmt::For& s, const Val& index, const std::optional<Partial>& partial);
  bool has_divergent_loops(const Block& block, Symbol lanes) const;
  bool is_divergent(const stmt::For& s) const;
  void write_divergent(const stmt::For& s);
  void write_if(const stmt::For& s, std::int64_t iteration);
  Range iterations_of_lanes(Range range, bool any) const;
  Val lanes_inside(const Range& range, const Val& index);
  void start_partials(int count);
  void combine_partials(int count);
  void combine_searches(const Accumulation& search, int count);
  void record_failure(const stmt::Check& s, const Val& bad);
  void prefetch_rows(const stmt::For& s);
  Val active_lanes(const Val& index, const Val& last);

  // ---- operations (emit_operation.cpp) ----
  Val emit(const Value& value, const op::Constant& o);
  Val emit(const Value& value, const op::Number& o);
  Val emit(const Value& value, const op::Load& o);
  Val emit(const Value& value, const op::Subscript& o);
  Val emit(const Value& value, const op::LoadArray& o);
  Val emit(const Value& value, const op::ReadVar& o);
  Val emit(const Value& value, const op::Call& o);
  std::optional<Val> compared_indices(const Value& value, const op::Call& o);
  std::optional<Val> masked_accumulation(const Value& value, const op::Call& o);
  Val emit(const Value& value, const op::Convert& o);
  Val emit(const Value& value, const op::Random& o);
  Val emit(const Value& value, const op::CombineLanes& o);
  Val emit(const Value& value, const op::PrefixLanes& o);
  Val emit(const Value& value, const op::LastLane& o);
  Val fold_lanes(std::string_view function, Val value);

  // ---- random numbers (emit_random.cpp) ----
  bool share_blocks(const op::Random& o, int lanes) const;
  Val coordinate_in_lanes(const Affine& coordinate, int lanes);
  std::vector<Val> random_words(const op::Random& o, const std::vector<Val>& counted);
  Val draw_in_row(const op::Random& o, Scalar type, int lanes);
  Val draw_in_place(const op::Random& o, Scalar type, int lanes);

  // ---- helpers ----
  /// As an i64: one for all lanes, or one for each.
  Val integer_value(const Affine& affine);
  int lanes_of(bool varying) const { return varying ? plan_.lanes : 1; }
  Val integer(std::int64_t value) { return ir_.integer(Scalar::i64, 1, value); }
  const Val& operand(ValueId id) const;
  Val read_var(VarId var);
  void set_var(VarId var, const Val& value);
  int copy_of(VarId var) const;
  bool is_exact_in_single(const Affine& affine) const;
  std::int64_t lane_step(const Affine& affine) const { return round_ ? affine.coefficient(round_->variable) : 0; }
  std::optional<Symbol> lane_variable() const;
  std::optional<Val> active() const { return round_ ? round_->active : std::nullopt; }
  Place buffer_place(BufferId buffer, const std::vector<Affine>& subscripts);
  Place array_place(ArrayId array, const std::vector<Affine>& subscripts);
  void jump(const std::string& label);
  void branch(const Val& condition, const std::string& yes, const std::string& no, std::string_view metadata = "");
  void label(const std::string& name) { ir_.line(name + ":"); }

  const LoopProgram& program_;
  const LanePlan& plan_;
  TextBuilder ir_;
  Addressing addressing_;
  Memory memory_;
  StoredElements elements_;
  std::vector<std::vector<Coefficient>> buffer_strides_, array_strides_;
  std::vector<std::optional<Val>> values_;
  std::optional<Round> round_;
  KnownValues known_;                   // of the loops around the statement
  int divergent_ = 0;                   // loops around the statement that run for some of the active lanes
  std::vector<Accumulation> partials_;  // of the loop whose iterations are written several at once
  int copy_ = 0;                        // which of them is being written
  StatementLines lines_;
  LineMarks marks_;
};

Scalar scalar_of(ValueType type);

}  // namespace moxie::llvm_ir
