#pragma once
// CudaWriter: writes the statements of a LoopProgram as CUDA C++ for the threads of a block.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/barriers.h"
#include "compiler/codegen/cuda/counted_loops.h"
#include "compiler/codegen/cuda/cuda_names.h"
#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/codegen/cuda/inlining.h"
#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/loop/statement_lines.h"

namespace moxie::cuda_text {

class CudaWriter {
 public:
  CudaWriter(const LoweredKernel& kernel, const CudaSchedule& schedule);

  /// Everything between the braces of the entry point; call once.
  std::string write();
  const KernelShape& shape() const { return shape_; }
  Names& names() { return names_; }
  /// Which lines of the printed LoopProgram the lines of what write() gave were made from.
  const LineMarks& marks() const { return marks_; }
  /// "S * 14": the elements of a buffer.
  std::string element_count(BufferId buffer) const;

 private:
  const LoopProgram& program() const { return kernel_.program; }

  // ---- the head (cuda_head.cpp) ----
  void write_head();
  std::string declare_blocks();
  void declare_arrays();
  void declare_vars();
  void declare_scratch();
  void declare_rows();
  void stage_tables();

  // ---- statements ----
  void write(const Block& block);
  std::string announcement(const Block& block, std::size_t k) const;
  void comment(const std::string& text);
  /// What is written while it lives was made from the statement.
  class Traced {
   public:
    Traced(CudaWriter& writer, const Statement& statement);
    ~Traced() { writer_.marks_.close(writer_.out_.size()); }
    Traced(const Traced&) = delete;
    Traced& operator=(const Traced&) = delete;

   private:
    CudaWriter& writer_;
  };
  std::vector<int> origins(const Statement& statement) const;
  void write(const stmt::Let& s);
  void write(const stmt::SetVar& s);
  void write(const stmt::Store& s);
  void write(const stmt::StoreArray& s);
  void write(const stmt::Check& s);
  void write(const stmt::For& s);
  void write_vector_loop(const stmt::For& s, const std::string& name);
  void write_shared_out(const stmt::For& s, const std::string& name);
  void write_serial(const stmt::For& s, const std::string& name);
  /// What the elements are counted from and up to, as text.
  struct Span {
    std::string low, last;
    std::function<std::string(const std::string&)> holds;  // a condition on an element
  };
  void open_elements(const std::string& name, const Span& elements);
  std::pair<std::string, std::string> write_chunk_bounds(const std::string& name, const Range& range);
  std::pair<std::string, std::string> write_chunk_bounds(const std::string& name, const std::string& count,
                                                         const std::string& type, const std::string& low);
  std::optional<std::string> added_to(ValueId id, const std::string& held) const;
  void open_scope(const std::string& head);
  void close_scope();
  void line(const std::string& text);
  void barrier() { line("__syncthreads();"); }

  // ---- rounds that are counted through (cuda_rounds.cpp) ----
  void write_elements();
  void write_own_elements(const std::string& element, const std::string& elements);
  void write_one(const std::string& element, const std::string& first, const std::string& elements);
  /// All rounds of loops around each other from the k-th on, as one product.
  std::string rounds_of(const CountedLoops& counted, std::size_t k = 0) const;
  void open_round(const CountedLoops& counted, const std::string& round, const std::string& type);
  void close_round(const CountedLoops& counted);
  /// Which of all rounds a thread has: a variable of this type and name, from `first` on.
  struct Rounds {
    std::string type, name, first, last, step;
  };
  void write_rounds(const CountedLoops& counted, const Rounds& rounds);
  void write_counted(const stmt::For& s);
  void write_reduction(const stmt::For& s);
  void write_rounds(const SharedReduction& reduction);
  void write_combination(const Accumulation& sum, const SharedReduction& reduction);
  /// Whether the rounds of a team's sum are shared out over blocks, too.
  bool shares_chunks() const { return kernel_.chunks && kernel_.team > 0; }
  /// The reductions that the lanes of a row share out.
  const Reductions& shared_reductions() const;

  // ---- terms that warps look for (cuda_search.cpp) ----
  void write_of_search(const stmt::For& s);
  void write_search(const stmt::For& s, const stmt::For& own, const std::string& name);

  // ---- several neighbours at once (cuda_wide.cpp) ----
  void write_wide(const Block& block);
  void write_wide_run(std::span<const Statement> run, const std::set<ValueId>& kept);
  void prepare_wide(ValueId id, bool kept);
  void prepare_wide(const stmt::Store& store);
  void finish_wide(const stmt::Store& store);
  std::string wide_type(DType dtype) const;

  // ---- which thread ----
  /// Conditions under which a thread may store: "active && row == 0".
  std::string guard() const;
  std::string guard_of_array(const stmt::StoreArray& s) const;
  /// Whether all rows do the same here.
  bool is_uniform() const { return shared_out_ == nullptr; }
  /// Scratch that several threads use.
  struct Touched {
    std::set<ArrayId> reads, writes;
  };
  bool is_common(ArrayId array) const;
  Touched touched(const Block& block) const;
  void wait_for(const Touched& touched);

  // ---- expressions (cuda_expressions.cpp) ----
  std::string text(ValueId id);
  std::string text(const Value& value, const op::Constant& o);
  std::string text(const Value& value, const op::Number& o);
  std::string text(const Value& value, const op::Load& o);
  std::string text(const Value& value, const op::Subscript& o);
  std::string text(const Value& value, const op::LoadArray& o);
  std::string text(const Value& value, const op::ReadVar& o);
  std::string text(const Value& value, const op::Call& o);
  std::optional<std::string> compared_indices(const op::Call& o) const;
  std::string text(const Value& value, const op::Convert& o);
  std::string text(const Value& value, const op::Random& o);
  std::string text(const Value& value, const op::CombineLanes& o);
  std::string text(const Value& value, const op::PrefixLanes& o);
  std::string text(const Value& value, const op::LastLane& o);
  std::string combined_over_lanes(ReduceKind kind, ValueType type, const std::string& value) const;
  std::string operand(ValueId id) const;
  /// The value as the tensor holds it.
  std::string stored_text(const stmt::Store& store) const;
  std::string number_operand(ValueId id) const;
  bool is_negated(ValueId id) const;
  std::string affine(const Affine& value) const;
  std::string first(const Range& range) const;
  /// "r < 14" or "r <= min(...)".
  std::string within(const std::string& name, const Range& range) const;
  std::string bound(const Bound& bound, bool round_up) const;
  std::string extreme(const std::vector<Bound>& bounds, bool is_low) const;
  std::string stride(const std::vector<Affine>& shape, const std::vector<std::uint32_t>& layout,
                     std::size_t axis) const;
  std::string offset(const BufferDecl& buffer, const std::vector<Affine>& subscripts) const;
  std::string element(const BufferDecl& buffer, const std::string& name, const std::vector<Affine>& subscripts) const;
  std::string table_element(BufferId buffer, const std::vector<Affine>& subscripts) const;
  std::string array_element(ArrayId array, const std::vector<Affine>& subscripts) const;

  const LoweredKernel& kernel_;
  const CudaSchedule& schedule_;
  KernelShape shape_;
  Names names_;
  Inlining inlining_;
  Barriers barriers_;
  std::set<const stmt::SetVar*> first_sets_;  // that declare their var
  std::set<Symbol> unrolled_;
  std::int64_t copies_ = 1;                                // of what is being written, by the unrolled loops around it
  std::map<BufferId, std::string> tables_;                 // staged buffers
  std::string neighbour_;                                  // the variable of loops over neighbours
  std::map<ValueId, std::string> wide_loads_;              // the neighbour's element
  std::map<const stmt::Store*, std::string> wide_stores_;  // what all neighbours' values are collected in
  std::set<ValueId> kept_;                                 // values of which there is one for each neighbour
  std::vector<std::string> value_texts_;                   // of values written into their use
  std::vector<std::vector<int>> value_origins_;            // of values written into their use
  StatementLines lines_;
  LineMarks marks_;
  std::string out_, last_comment_;
  int indent_ = 1;
  std::set<const stmt::For*> counted_;     // their variables are known where they begin
  bool waits_for_none_ = false;            // threads go through elements by themselves
  const stmt::For* vector_ = nullptr;      // open
  const stmt::For* shared_out_ = nullptr;  // open
};

std::string without_parentheses(std::string text);
std::string type_name(ValueType type);
std::string type_name(DType dtype);
std::string combination_name(ReduceKind kind);

}  // namespace moxie::cuda_text
