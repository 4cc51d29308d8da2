#pragma once
// Plan: what a device runs for a Program: kernels and library calls in order, as data.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/fuse/fuse.h"
#include "compiler/loop/instrument.h"
#include "compiler/loop/lower.h"
#include "compiler/schedule/choose.h"
#include "compiler/schedule/pieces.h"

namespace moxie {

using PlanStep = LoweredStep;
/// Those of a scan or of slices, or the step itself.
std::vector<const LoweredKernel*> kernels_of(const PlanStep& step);
std::vector<const MatrixProduct*> products_of(const PlanStep& step);
std::vector<const AlgebraCall*> algebra_calls_of(const PlanStep& step);
std::vector<const OrderedSumCall*> ordered_sums_of(const PlanStep& step);
/// The tensor of which `name` is a view in the slices of the step, or that tensor itself.
const std::string& stored_in(const PlanStep& step, const std::string& name);
/// All that the step reads or writes. A scan uses its tensors from its first round to its last.
std::vector<std::string> tensors_of(const PlanStep& step);

struct Plan {
  Program program;  // as given: its inputs and outputs are the plan's
  FusedProgram fused;
  std::vector<PlanStep> steps;
  std::vector<ScheduleChoice> choices = {};  // empty where fusion alone arranges the loops
  std::size_t candidates = 0;                // loops that were lowered to choose among; of a plan from the cache: none
};

/// Also the dims of the first slice of every step with slices.
DimValues with_slice_dims(const Plan& plan, DimValues dims);

/// What a Plan is made for.
struct PlanTarget {
  Products products = Products::library;
  /// The processor whose cost decides about schedules, or the GPU; without either fusion alone arranges the loops.
  const Machine* machine = nullptr;
  std::optional<GpuLimits> gpu = {};
  /// Schedules to take whatever they cost; for GPUs there are none.
  GivenSchedules given = {};
  /// Typical values of dynamic dims; kAssumedExtent where there is none.
  DimValues extents = {};
  bool is_scheduled() const { return machine || gpu; }
};

/// Makes the plans of one specialised Program, which is verified and rewritten once, however many targets there are.
/// One thread may use it at a time.
class Planner {
 public:
  /// `without` names rewrite passes to leave out, or kSlicesPass, to find the one in which a fault lies.
  explicit Planner(Program program, const Checks& checks = {}, std::vector<std::string> without = {});
  const Program& program() const { return program_; }
  const Checks& checks() const { return checks_; }
  const std::vector<std::string>& without() const { return without_; }
  /// Optimises, fuses, schedules and lowers the Program. Its kernels check what they compute as far as that is wanted.
  Plan plan(const PlanTarget& target = {});

 private:
  bool can_slice() const;
  const std::vector<ProgramPart>& optimised();

  Program program_;
  Checks checks_;
  std::vector<std::string> without_;
  std::vector<ProgramPart> optimised_;  // as in_chunks() gives them
};
/// The plan for one target only.
Plan make_plan(const Program& program, const Checks& checks = {}, const PlanTarget& target = {},
               std::vector<std::string> without = {});
/// The dynamic dims that are sizes of matrices, with their values, for a target whose kernels factor matrices: these
/// need a plan for every size; kAssumedExtent where `dims` has none. Empty where a library does it.
DimValues matrix_sizes(const Program& program, const PlanTarget& target, const DimValues& dims);
/// The Program specialised for `values`, those of dynamic dims included.
Program specialise_all(Program program, const DimValues& values);
/// Extents in classes that share a Plan: the nearest powers of four.
DimValues extent_classes(const DimValues& dims);
std::string print(const Plan& plan);

/// How the work of one kernel is split for given extents. It depends on shapes only, never on the number of threads, so
/// that results do not either.
struct Partition {
  std::int64_t tiles = 1;   // independent pieces
  std::int64_t chunks = 1;  // pieces with partial results of their own
  std::string reason;
  bool operator==(const Partition&) const = default;
};
/// `chunks` does not depend on `lanes` either, so that memory can be planned before any kernel is compiled.
Partition choose_partition(const LoweredKernel& kernel, const DimValues& dims, int lanes);

/// A range of a split loop: piece `index` of `count`.
struct Piece {
  std::int64_t low, high;
};
Piece piece_of(const SplitLoop& loop, const DimValues& dims, std::int64_t index, std::int64_t count, int lanes);

/// Where tensors lie that are neither inputs nor outputs, and the partial results of every step: offsets into one block
/// of memory.
struct MemoryPlan {
  struct Slot {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Slot> tensors;
  std::vector<std::map<std::string, Slot>> partials;  // per step, by tensor; in a scan, of one round
  std::int64_t bytes = 0;
};
/// `chunks` is the number of copies of its partial results that each step writes: 1 where it writes none. What constant
/// steps leave to others (see runtime/constant_steps.h) shares its memory with nothing.
MemoryPlan plan_memory(const Plan& plan, const DimValues& dims, std::span<const std::int64_t> chunks);

/// Elements of one step of a tensor of a scan.
std::int64_t slice_elements(const Program& program, const std::string& tensor, const DimValues& dims);
/// Where the current step of it begins, in elements.
std::int64_t slice_place(const FusedProgram& fused, const std::string& tensor, const DimValues& dims,
                         const ScanPosition& at);

/// Where the part of a whole tensor begins that belongs to the slice whose dims these are, in elements.
std::int64_t first_element(const Plan& plan, const SliceView& view, const DimValues& dims);

/// Whether no loop writes some of the elements: those outside the ranges of their axes, which hold zeros.
bool has_gaps(const Program& program, std::string_view tensor);

/// Extents of a tensor of the plan. One such as S-2 is 0 where S is 1.
std::vector<std::int64_t> extents_of(const Program& program, std::string_view tensor, const DimValues& dims);
std::int64_t count_elements(const Program& program, const std::string& tensor, const DimValues& dims);

/// Values of the dims that the shapes of inputs show. Throws ShapeError where shapes contradict each other, a rank is
/// wrong or an input is missing.
DimValues dims_from_shapes(const Program& program, const std::map<std::string, std::vector<std::int64_t>>& shapes,
                           DimValues known = {});

}  // namespace moxie
