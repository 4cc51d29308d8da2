#pragma once
// NestBuilder: evaluates expressions inside a nest of loops. Every value is computed in the outermost loop that knows
// its operands, reductions over equal ranges share one loop, and equal expressions are computed once.
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/value_range.h"
#include "compiler/fuse/fuse.h"
#include "compiler/loop/guards.h"
#include "compiler/loop/loop_program.h"
#include "compiler/loop/staging.h"

namespace moxie {

/// Something to do at every round of the loops around it, and of `loops` (outermost first), which are still to be
/// opened.
struct Work {
  enum class Target : std::uint8_t { Buffer, Array, Var };
  Target target = Target::Buffer;
  std::uint32_t id = 0;  // of the buffer, array or var
  std::vector<Affine> subscripts;
  /// Of a search for the position of an extremum, whose best element the var `id` holds: where that stands.
  struct Position {
    VarId var;
    ValueType type;
    Expr expr;
    bool ascends;  // from iteration to iteration, from the first position of the reduction's range on
  };
  std::optional<ReduceKind> accumulate;  // combine with what the array or var holds
  ValueType type = ValueType::f32;
  Expr body;
  std::vector<LoopIndex> loops;
  std::string source = {};  // what it belongs to, for comments
  std::optional<Position> position = {};
  /// A prefix reduction: the var holds the combination of all elements before this one, and each element is combined
  /// with it before it is stored. In lanes the var is uniform, and every lane continues the one before it.
  struct Running {
    VarId var;
    ReduceKind kind;
  };
  std::optional<Running> running = {};
};

/// See stmt::For.
struct LoopTraits {
  bool vector = false;
  bool parallel = false;
  std::string comment = {};
};

class NestBuilder {
 public:
  /// `source` is the Program that is lowered. Loops are named after its declared indices of the same range.
  NestBuilder(LoopProgram& program, const std::map<std::string, BufferId>& buffers, const Program& source);

  /// Factors that occur in many products stand first in each, so that products share their beginnings.
  void count_factors(const Expr& expr);
  /// Loops over `piece` run through a part of `whole`.
  void know_piece(const Range& piece, const Range& whole);
  /// A symbol that no loop opens has a value in this range.
  void know_range(Symbol symbol, const Range& range) { known_.emplace_back(symbol, range); }
  /// The ranges of the arguments that are steps, in a kernel that computes steps of this definition.
  void know_steps(const FusedProgram& fused, const Definition& definition);
  /// Loops and reductions say which of them are vector loops; serial loops are not jammed in pairs then.
  void choose_lanes() { lanes_are_chosen_ = true; }
  /// Reductions that `depth` loops of reductions enclose, itself included, are vector loops unless one is open already:
  /// every lane reduces a part of the range, then the lanes are combined.
  void reduce_in_lanes(int depth) { lanes_depth_ = depth; }
  /// Reductions over a range by data run through that range alone, unless it differs between lanes; for lanes that are
  /// threads, also then.
  void bound_by_values(bool lanes_are_threads = false) {
    bounds_by_values_ = true;
    lanes_are_threads_ = lanes_are_threads;
  }
  /// Every loop computes what it needs: threads that share a loop have no scratch in common.
  void keep_nothing() { keeps_rows_ = false; }
  /// The loops down to the vector loop are one, whose iterations are threads: what a thread can compute inside is not
  /// computed between them.
  void compute_in_elements() { computes_in_elements_ = true; }
  void build(std::vector<Work> works);
  /// Computes the reductions of the work that loops to be opened inside have in common.
  void reduce_before_loops(Work work);

  // ---- loops and statements at the current place ----
  /// Opens a loop; `index` stands for its variable in expressions until the matching close_loop().
  void open_loop(Symbol index, const Range& range, const std::string& name = {}, LoopTraits traits = {});
  void close_loop();
  ValueId emit(const Expr& expr, ValueType type);
  ValueId emit_operation(Operation operation, ValueType type, bool varying);
  /// Until the innermost loop is closed, the expression is this value.
  void know_value(const Expr& expr, ValueId value);
  ValueId emit_call(std::string_view function, std::vector<ValueId> args);
  void append(Statement statement);
  const Program& source() const { return source_; }
  /// Conditions at the accesses that need them at the current place.
  Expr guarded(const Expr& expr, std::optional<AtStep> at = {}) const {
    return guard_accesses(expr, source_, domain_at(frames_.size() - 1), std::move(at));
  }
  /// Whether loops are open for all of the expression's indices.
  bool is_available(const Expr& expr) const;
  /// Whether all that the expression reads is inside of its tensor at the current place, whatever its conditions say.
  bool reads_inside(const Expr& expr) const;
  /// Whether the ends of the range can be read here, the same in all lanes.
  bool may_bound(const ValueRange& range) const;
  /// The part of a loop's range that lies in the other.
  Range with_values(Range range, const ValueRange& values);
  VarId new_var(ValueType type, bool varying);
  ArrayId new_array(std::string name, ValueType type, std::vector<Affine> extents, bool varying);
  /// Symbols of expressions to variables of loops.
  Affine resolve(const Affine& affine) const;
  bool is_varying(const Expr& expr) const;
  bool is_varying(const Affine& affine) const;
  bool is_varying(const Range& range) const;
  ValueId neutral(ReduceKind kind, ValueType type);

 private:
  struct Frame {
    Block block;
    Symbol index;     // Free; of the outermost block Bound(0), which no expression has
    Symbol variable;  // Bound: the loop's in the LoopProgram
    Range range;
    LoopTraits traits;
    std::string name;
    std::map<std::pair<const Node*, ValueType>, ValueId> values;
    std::map<std::pair<const ScalarFunction*, std::vector<ValueId>>, ValueId> calls;
    std::multimap<std::uint64_t, std::size_t> staged;  // places in stages_ that are read at this loop's index
  };
  struct Stage {
    Staged staged;
    ArrayId array;
  };
  struct Reduction {
    Expr expr;
    ValueType type;
    std::string source;
    std::optional<RangedReduce> ranged = {};
    /// Whether both can share a loop.
    bool runs_with(const Reduction& other) const;
    bool is_same(const Reduction& other) const { return expr == other.expr && type == other.type; }
  };
  /// What later loops over the range of a loop compute.
  struct Later {
    std::vector<Reduction> reductions;
    std::vector<Work> works;
    bool is_empty() const { return reductions.empty() && works.empty(); }
  };
  using Key = std::pair<const Node*, ValueType>;

  std::string loop_name(const std::string& wanted, const Range& range) const;
  std::optional<ValueId> find_value(const Expr& expr, ValueType type) const;
  bool is_known(Symbol symbol) const;
  bool is_safe_everywhere(const Staged& staged) const;
  std::int64_t longest_stage() const;
  std::optional<std::int64_t> largest_value(const Affine& affine) const;
  void stage(const std::vector<Work>& works, Symbol index);
  std::optional<ValueId> read_staged(const Expr& expr, ValueType type);
  std::size_t depth_of(const Expr& expr, ValueType type);
  std::size_t depth_of(const Affine& affine) const;
  /// Where a value goes that needs no more than the loops down to this depth.
  std::size_t placed_depth(std::size_t depth) const;
  ValueId place(Value value, std::size_t depth);
  ValueId place_call(const ScalarFunction& function, std::vector<ValueId> args, ValueType type);
  ValueId emit_node(const Expr& expr, ValueType type);
  ValueId emit_access(const Expr& access, ValueType type);
  ValueId emit_guarded_access(const Expr& access, ValueType type, const Expr& condition, ValueId guard);
  ValueId place_load(const Expr& access, ValueType type, std::size_t depth, const Expr& condition,
                     std::optional<ValueId> guard);
  Affine emit_subscript(const Expr& access, BufferId buffer, std::uint32_t axis, const Expr& condition,
                        std::optional<ValueId> guard);
  IndexDomain domain_at(std::size_t depth) const;
  ValueId emit_call_node(const Expr& expr, ValueType type);
  std::optional<ValueId> emit_progression(const Expr& exponential, ValueType type);
  ValueId emit_chain(const Expr& expr, ValueType type);
  ValueId emit_condition(const Expr& expr, ValueType type);

  void collect_reductions(const Work& work, std::vector<Reduction>& found) const;
  std::optional<RangedReduce> ranged(const Expr& reduction) const;
  bool has_vector_loop() const;
  bool reduces_in_lanes() const;
  bool open_sums_to_lanes(Work& work) const;
  /// Of a sum or a product.
  struct Operand {
    ValueId id;
    Expr expr;
    int delay;  // those of a larger one come after all others
    std::size_t depth;
    int popularity;
  };
  int products_with(const Expr& a, const Expr& b) const;
  void order_factors(std::span<Operand> factors) const;
  std::vector<Work> without_masks(std::vector<Work> works) const;
  void run_loops(const std::vector<Work>& works, std::vector<Work*> looping);
  bool waits_for(const Expr& expr, const std::vector<Reduction>& pending) const;
  void finish_work(const Work& work);
  void finish_search(const Work& work);
  static std::string comment_on(const std::vector<Reduction>& reductions, const std::vector<Work*>& works);
  static Work inside_first_loop(Work work, Symbol index);
  Later later_over(const Range& range, const std::vector<Reduction>& ready, const std::vector<Reduction>& pending,
                   const std::vector<Work*>& ready_works, const std::vector<Work*>& looping) const;
  std::optional<std::int64_t> extent_of_row(const Expr& value, Symbol index, const Range& range) const;
  std::vector<Stage> kept_for(const Later& later, const std::vector<Work>& now, Symbol index, const Range& range);
  Symbol index_for(const std::vector<Work*>& works) const;
  void run_group(const Range& range, bool vector, std::vector<Reduction> reductions, std::vector<Work*> works,
                 const Later& later);
  Work work_of(const Reduction& reduction, Symbol index) const;
  void set_neutral(Work& work, const Reduction& reduction, bool varying);
  void note_results(const Reduction& reduction, const Work& work, bool in_lanes);
  ValueId are_same(ValueId a, ValueId b);
  void drop_extrema_of_searches(std::vector<Reduction>& reductions) const;
  ValueId combine(ReduceKind kind, ValueId a, ValueId b);
  ValueId continued(const Work::Running& running, ValueId value);

  LoopProgram& program_;
  const std::map<std::string, BufferId>& buffers_;
  const Program& source_;
  std::vector<std::pair<Range, Range>> pieces_;
  std::vector<std::pair<Symbol, Range>> known_;
  bool lanes_are_chosen_ = false;
  bool keeps_rows_ = true;
  bool computes_in_elements_ = false;
  bool bounds_by_values_ = false, lanes_are_threads_ = false;
  int lanes_depth_ = 0;
  int reduction_depth_ = 0;  // loops of reductions that are open
  std::vector<Frame> frames_;
  std::vector<std::size_t> value_depth_;
  std::vector<Stage> stages_;
  std::unordered_map<const Node*, int> popularity_;
  std::map<std::pair<const Node*, const Node*>, int> pairs_;  // products that both are factors of
  std::set<const Node*> counted_;                             // products whose factors popularity_ and pairs_ have
  std::vector<Expr> alive_;                                   // keys of the maps above
  std::uint32_t next_variable_ = 0;
};

}  // namespace moxie
