#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/fuse/checkpoints.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/constant_steps.h"
#include "runtime/sliced_plan.h"

namespace moxie {

namespace {

/// Adds checks to the steps of a plan. Inputs are checked first, every other tensor as soon as it is complete: the
/// first failure is where bad values come from.
class StepChecker {
 public:
  StepChecker(const FusedProgram& fused, const Checks& checks) : fused_(fused), checks_(checks) {}

  std::vector<PlanStep> run(const std::vector<PlanStep>& steps) const {
    std::vector<PlanStep> result;
    for (const InputDecl& input : fused_.program.inputs) append_inspection(result, input.name);
    append_checked(result, steps);
    return result;
  }

 private:
  template <class AnyStep>
  void append_checked(std::vector<AnyStep>& out, const std::vector<AnyStep>& steps) const {
    for (const AnyStep& step : steps) std::visit([&](const auto& part) { append(out, part); }, step);
  }

  /// What a library computes is stored by no kernel.
  void append(auto& out, const MatrixProduct& product) const {
    out.emplace_back(product);
    append_inspection(out, product.definition.name);
  }

  void append(auto& out, const AlgebraCall& call) const {
    out.emplace_back(call);
    append_inspection(out, call.definition.name);
  }

  void append(std::vector<PlanStep>& out, const OrderedSumCall& call) const {
    out.emplace_back(call);
    append_inspection(out, call.definition.name);
  }

  /// Nor are the final values of sums that kernels leave in parts.
  void append(auto& out, const LoweredKernel& kernel) const {
    out.emplace_back(instrument(kernel, fused_.program, checks_));
    for (const BufferUse& use : kernel.uses) {
      if (use.partial) append_inspection(out, use.tensor);
    }
  }

  void append(auto& out, const LoweredScan& scan) const {
    LoweredScan checked{scan.name, scan.extent, scan.backwards, {}};
    append_checked(checked.steps, scan.steps);
    out.emplace_back(std::move(checked));
  }

  void append(std::vector<PlanStep>& /*out*/, const LoweredSlices& /*slices*/) const {
    throw InternalError("a plan with checks has slices");
  }

  void append_inspection(auto& out, const std::string& tensor) const {
    LoweredKernel kernel = inspect(fused_, tensor, checks_);
    if (!kernel.program.checks.empty()) out.emplace_back(std::move(kernel));
  }

  const FusedProgram& fused_;
  const Checks& checks_;
};

/// Every definition with a declared domain as an output, so that its values are in memory, where they can be checked.
/// Otherwise most of them would be inlined.
Program with_declared_outputs(Program program) {
  for (Definition& definition : program.definitions) {
    if (definition.domain == ValueDomain::Any) continue;
    definition.output = true;
    definition.recomputed = false;
  }
  return program;
}

}  // namespace

namespace {

std::vector<PlanStep> lower_all(const FusedProgram& fused) {
  std::vector<PlanStep> steps;
  for (const Step& step : fused.steps) {
    if (const auto* kernel = std::get_if<Kernel>(&step))
      steps.emplace_back(lower(fused, *kernel));
    else if (const auto* scan = std::get_if<ScanLoop>(&step))
      steps.emplace_back(lower(fused, *scan));
    else if (const auto* call = std::get_if<AlgebraCall>(&step))
      steps.emplace_back(*call);
    else if (const auto* sum = std::get_if<OrderedSumCall>(&step))
      steps.emplace_back(*sum);
    else
      steps.emplace_back(std::get<MatrixProduct>(step));
  }
  return steps;
}

/// What parts leave to others and to the caller.
std::set<std::string> whole_tensors(const std::vector<ProgramPart>& parts) {
  std::set<std::string> names;
  for (const ProgramPart& part : parts) {
    for (const InputDecl& input : part.program.inputs) {
      if (!part.slices || !part.slices->views.contains(input.name)) names.insert(input.name);
    }
    for (const Definition& result : part.results) names.insert(result.name);
    if (part.slices) continue;
    for (const Definition& definition : part.program.definitions) {
      if (definition.output) names.insert(definition.name);
    }
  }
  return names;
}

}  // namespace

Planner::Planner(Program program, const Checks& checks, std::vector<std::string> without)
    : program_(std::move(program)), checks_(checks), without_(std::move(without)) {
  verify(program_);
}

/// Checks look at whole tensors.
bool Planner::can_slice() const { return !checks_.any() && std::ranges::find(without_, kSlicesPass) == without_.end(); }

const std::vector<ProgramPart>& Planner::optimised() {
  if (!optimised_.empty()) return optimised_;
  const Program whole = checks_.negvar ? with_declared_outputs(program_) : program_;
  if (can_slice()) optimised_ = in_chunks(whole);
  if (optimised_.empty()) optimised_.push_back({whole, std::nullopt});
  std::set<std::string> shared = whole_tensors(optimised_), taken = shared;
  for (ProgramPart& part : optimised_) {
    part.program = optimise(part.program, {}, without_);
    if (optimised_.size() > 1) part = with_own_names(std::move(part), shared, taken);
  }
  return optimised_;
}

Plan Planner::plan(const PlanTarget& target) {
  const auto make = [&](const ProgramPart& part, const DimValues& extents) {
    PlanTarget of_part = target;
    of_part.extents = extents;
    // Nests of a GPU number the iterations of several loops at once, which checks between these loops prevent.
    if (target.machine || (target.gpu && !checks_.any()))
      return schedule_in_slices(part.program, of_part, can_slice() && !part.slices);
    ScheduledProgram lowered;
    lowered.fused = fuse(part.program, target.products, Layouts::chosen, typical_extents(part.program, extents));
    lowered.steps = lower_all(lowered.fused);
    return lowered;
  };
  ScheduledProgram scheduled = joined(program_, optimised(), target.extents, make);
  Plan plan{program_, std::move(scheduled.fused), std::move(scheduled.steps), std::move(scheduled.choices),
            scheduled.candidates};
  for (Definition& definition : plan.fused.program.definitions) {  // the caller reads those of the program as given
    const Definition* given = program_.find_definition(definition.name);
    definition.output = given && given->output;
  }
  if (checks_.any()) plan.steps = StepChecker(plan.fused, checks_).run(plan.steps);
  return plan;
}

Plan make_plan(const Program& program, const Checks& checks, const PlanTarget& target,
               std::vector<std::string> without) {
  return Planner(program, checks, std::move(without)).plan(target);
}

DimValues matrix_sizes(const Program& program, const PlanTarget& target, const DimValues& dims) {
  DimValues sizes;
  if (target.products == Products::library) return sizes;
  const auto take = [&](const Expr& e) {
    if (e->kind != NodeKind::LinearAlgebra) return;
    for (const Affine& extent : {e->size.rows, e->size.columns}) {
      for (const auto& [symbol, coefficient] : extent.terms()) {
        const auto known = dims.find(std::string(symbol.name()));
        sizes[std::string(symbol.name())] =
            known == dims.end() ? static_cast<std::int64_t>(kAssumedExtent) : known->second;
      }
    }
  };
  for (const Definition& definition : program.definitions) visit(definition.body, take);
  return sizes;
}

Program specialise_all(Program program, const DimValues& values) {
  for (DimDecl& dim : program.dims) dim.dynamic = dim.dynamic && !values.contains(dim.name);
  return specialise(program, values);
}

DimValues extent_classes(const DimValues& dims) {
  DimValues classes;
  for (const auto& [name, value] : dims) {
    std::int64_t nearest = 1;
    while (nearest < value - nearest) nearest *= 4;
    classes[name] = nearest;
  }
  return classes;
}

namespace {

/// Those of a scan, or the step itself.
template <class Part>
std::vector<const Part*> parts_of(const PlanStep& step) {
  std::vector<const Part*> parts;
  const auto add = [&]<class Candidate>(const auto& self, const Candidate& candidate) -> void {
    const auto add_all = [&](const auto& inner) {
      for (const auto& one : inner) std::visit([&](const auto& held) { self(self, held); }, one);
    };
    if constexpr (std::same_as<Candidate, Part>)
      parts.push_back(&candidate);
    else if constexpr (std::same_as<Candidate, LoweredScan> || std::same_as<Candidate, LoweredSlices>)
      add_all(candidate.steps);
  };
  std::visit([&](const auto& held) { add(add, held); }, step);
  return parts;
}

}  // namespace

std::vector<const AlgebraCall*> algebra_calls_of(const PlanStep& step) { return parts_of<AlgebraCall>(step); }
std::vector<const OrderedSumCall*> ordered_sums_of(const PlanStep& step) { return parts_of<OrderedSumCall>(step); }
std::vector<const LoweredKernel*> kernels_of(const PlanStep& step) { return parts_of<LoweredKernel>(step); }
std::vector<const MatrixProduct*> products_of(const PlanStep& step) { return parts_of<MatrixProduct>(step); }

const std::string& stored_in(const PlanStep& step, const std::string& name) {
  const auto* slices = std::get_if<LoweredSlices>(&step);
  if (!slices) return name;
  const auto view = slices->slices.views.find(name);
  return view == slices->slices.views.end() ? name : view->second.tensor;
}

DimValues with_slice_dims(const Plan& plan, DimValues dims) {
  for (const PlanStep& step : plan.steps) {
    if (const auto* slices = std::get_if<LoweredSlices>(&step)) set_slice_dims(slices->slices, 0, dims);
  }
  return dims;
}

std::vector<std::string> tensors_of(const PlanStep& step) {
  std::vector<std::string> names;
  for (const MatrixProduct* product : products_of(step))
    names.insert(names.end(), {product->left.tensor, product->right.tensor, product->out.tensor});
  const auto add_call = [&](const auto* call) {
    std::ranges::copy(operands_of(*call), std::back_inserter(names));
    names.push_back(call->definition.name);
  };
  std::ranges::for_each(algebra_calls_of(step), add_call);
  std::ranges::for_each(ordered_sums_of(step), add_call);
  for (const LoweredKernel* kernel : kernels_of(step)) {
    for (const BufferUse& use : kernel->uses) names.push_back(use.tensor);
  }
  for (std::string& name : names) name = std::string(stored_in(step, name));
  if (const auto* slices = std::get_if<LoweredSlices>(&step)) {
    for (const auto& [name, view] : slices->slices.parts) names.push_back(view.tensor);
  }
  return names;
}

std::vector<std::int64_t> extents_of(const Program& program, std::string_view tensor, const DimValues& dims) {
  std::vector<std::int64_t> extents;
  for (const Affine& extent : program.shape_of(tensor))
    extents.push_back(std::max<std::int64_t>(evaluate(extent, dims), 0));
  return extents;
}

std::int64_t count_elements(const Program& program, const std::string& tensor, const DimValues& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents_of(program, tensor, dims)) count = checked_mul(count, extent);
  return count;
}

bool has_gaps(const Program& program, std::string_view tensor) {
  const Definition* definition = program.find_definition(tensor);
  return definition && std::ranges::any_of(definition->axes,
                                           [](const AxisDecl& axis) { return axis.range.as_extent() != axis.extent; });
}

// ---- Scans ----

namespace {

std::int64_t product_of(const std::vector<Affine>& extents, const DimValues& dims) {
  std::int64_t product = 1;
  for (const Affine& extent : extents)
    product = checked_mul(product, std::max<std::int64_t>(evaluate(extent, dims), 0));
  return product;
}

}  // namespace

std::int64_t slice_elements(const Program& program, const std::string& tensor, const DimValues& dims) {
  std::vector<Affine> shape = program.shape_of(tensor);
  shape.erase(shape.begin());
  return product_of(shape, dims);
}

std::int64_t slice_place(const FusedProgram& fused, const std::string& tensor, const DimValues& dims,
                         const ScanPosition& at) {
  return checked_mul(*scan_argument(argument_of_step(fused, tensor), at), slice_elements(fused.program, tensor, dims));
}

std::int64_t first_element(const Plan& plan, const SliceView& view, const DimValues& dims) {
  const std::vector<std::int64_t> extents = extents_of(plan.fused.program, view.tensor, dims);
  std::int64_t place = 0;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const std::int64_t first = k < view.first.size() ? dims.find(view.first[k])->second : 0;
    place = checked_add(checked_mul(place, extents[k]), first);
  }
  return place;
}

// ---- Dims ----

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

[[noreturn]] void refuse_shape(const std::string& name, const std::vector<std::int64_t>& found,
                               const std::string& expected, std::string_view verb) {
  const std::string problem =
      fmt::format("input {} has shape {}, but {} {} wanted", name, shape_text(found), expected, verb);
  throw ShapeError(problem, {.problem = problem, .name = name, .expected = expected, .found = shape_text(found)});
}

/// An axis without elements says only that its extent is not positive, unless it is a plain dim or a multiple of one.
bool is_exact(const Affine& extent, std::int64_t value) { return value > 0 || extent.constant() == 0; }

/// Learns the dim of an extent such as `S` or `2*S+1`; extents of several dims are checked afterwards.
void learn_dim(const Affine& extent, std::int64_t value, const std::string& tensor, std::size_t axis,
               const DimValues& given, DimValues& dims) {
  if (extent.terms().size() != 1) return;
  const auto& [symbol, coefficient] = extent.terms()[0];
  const std::int64_t rest = value - extent.constant();
  if (!is_exact(extent, value)) {
    const int sign = coefficient > 0 ? 1 : -1;
    dims.emplace(symbol.name(), sign * floor_div(rest, sign * coefficient));
    return;
  }
  const auto refuse = [&](const std::string& problem, const std::string& expected) {
    throw ShapeError(problem,
                     {.problem = problem, .name = tensor, .expected = expected, .found = std::to_string(value)});
  };
  if (rest % coefficient != 0)
    refuse(fmt::format("axis {} of {} has {} elements, which {} can not be for any {}", axis, tensor, value,
                       print(extent), symbol.name()),
           print(extent));
  const auto [known, is_new] = dims.emplace(symbol.name(), rest / coefficient);
  if (!is_new && known->second != rest / coefficient)
    refuse(fmt::format("axis {} of {} has {} elements, so {} = {}, but {} = {} {}", axis, tensor, value, symbol.name(),
                       rest / coefficient, symbol.name(), known->second,
                       given.contains(symbol.name()) ? "is given" : "from the tensors before it"),
           std::to_string(known->second * coefficient + extent.constant()));
}

/// Exact axes are asked before the others.
void learn_dims(const InputDecl& input, const std::vector<std::int64_t>& shape, bool exact, const DimValues& given,
                DimValues& dims) {
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (is_exact(input.shape[k], shape[k]) == exact) learn_dim(input.shape[k], shape[k], input.name, k, given, dims);
  }
}

}  // namespace

DimValues dims_from_shapes(const Program& program, const std::map<std::string, std::vector<std::int64_t>>& shapes,
                           DimValues known) {
  for (const DimDecl& dim : program.dims) {
    if (dim.value) known.emplace(dim.name, *dim.value);
  }
  const DimValues fixed = known;
  for (const InputDecl& input : program.inputs) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) {
      const std::string problem = "input " + input.name + " is missing";
      throw ShapeError(problem, {.problem = problem, .name = input.name});
    }
    if (given->second.size() != input.shape.size())
      refuse_shape(input.name, given->second, fmt::format("{} axes", input.shape.size()), "are");
    learn_dims(input, given->second, /*exact=*/true, fixed, known);
  }
  for (const InputDecl& input : program.inputs) learn_dims(input, shapes.at(input.name), /*exact=*/false, fixed, known);
  for (const InputDecl& input : program.inputs) {
    const auto wanted = extents_of(program, input.name, known);
    if (wanted != shapes.at(input.name)) refuse_shape(input.name, shapes.at(input.name), shape_text(wanted), "is");
  }
  return known;
}

// ---- Partitions ----

Partition choose_partition(const LoweredKernel& kernel, const DimValues& dims, int lanes) {
  const PieceCounts counts = count_pieces(kernel, dims, lanes);
  Partition partition{counts.tiles, counts.chunks, ""};
  if (kernel.chunks)
    partition.reason =
        fmt::format("{} rows in chunks of at least {}", extent_of(*kernel.chunks, dims), kernel.chunks->least_rows);
  return partition;
}

Piece piece_of(const SplitLoop& loop, const DimValues& dims, std::int64_t index, std::int64_t count, int lanes) {
  const std::int64_t rounds = vector_extent_of(loop, dims, lanes);
  const std::int64_t unit = loop.over_lanes ? lanes : 1;
  const auto boundary = [&](std::int64_t k) { return std::min(rounds * k / count * unit, extent_of(loop, dims)); };
  return {boundary(index), boundary(index + 1)};
}

// ---- Memory ----

namespace {

std::int64_t bytes_of(const Program& program, const std::string& tensor, const DimValues& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents_of(program, tensor, dims)) count = checked_mul(count, extent);
  return checked_mul(count, moxie::bytes_of(program.dtype_of(tensor)));
}

std::int64_t slice_bytes(const Program& program, const std::string& tensor, const DimValues& dims) {
  return checked_mul(slice_elements(program, tensor, dims), bytes_of(program.dtype_of(tensor)));
}

/// Memory that is in use over a range of steps.
struct Lifetime {
  std::size_t first, last;
  std::int64_t bytes;
  MemoryPlan::Slot* slot;
};

/// Greedy by size: each block goes to the lowest place where nothing alive at the same time lies.
std::int64_t place_all(std::vector<Lifetime> blocks) {
  constexpr std::int64_t kAlignment = 64;
  std::ranges::stable_sort(blocks, std::greater<>(), &Lifetime::bytes);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<const MemoryPlan::Slot*> neighbours;
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last) neighbours.push_back(blocks[j].slot);
    }
    std::ranges::sort(neighbours, {}, &MemoryPlan::Slot::offset);
    std::int64_t offset = 0;
    for (const MemoryPlan::Slot* other : neighbours) {
      if (offset + blocks[i].bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    const std::int64_t bytes = ceil_div(blocks[i].bytes, kAlignment) * kAlignment;
    *blocks[i].slot = {offset, bytes};
    end = std::max(end, offset + bytes);
  }
  return end;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan, const DimValues& dims, std::span<const std::int64_t> chunks) {
  MemoryPlan memory;
  memory.partials.resize(plan.steps.size());
  const Program& program = plan.fused.program;
  const std::vector<bool> constant = constant_steps(plan);
  std::set<std::string> read_in_every_run;  // and written in the first
  std::map<std::string, std::pair<std::size_t, std::size_t>> spans;
  std::vector<Lifetime> blocks;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    for (const std::string& name : tensors_of(plan.steps[k])) {
      const Definition* definition = program.find_definition(name);
      if (!definition || definition->output) continue;
      const auto [span, is_new] = spans.emplace(name, std::pair(k, k));
      if (!is_new) span->second.second = k;
      if (constant[span->second.first] && !constant[k]) read_in_every_run.insert(name);
    }
    if (chunks[k] == 1) continue;
    for (const LoweredKernel* kernel : kernels_of(plan.steps[k])) {
      for (const BufferUse& use : kernel->uses) {
        if (!use.partial) continue;
        const std::int64_t bytes =
            kernel->in_scan ? slice_bytes(program, use.tensor, dims) : bytes_of(program, use.tensor, dims);
        blocks.push_back({k, k, checked_mul(chunks[k], bytes), &memory.partials[k][use.tensor]});
      }
    }
  }
  for (const auto& [name, span] : spans) {
    const auto [first, last] = read_in_every_run.contains(name) ? std::pair(std::size_t{0}, plan.steps.size()) : span;
    blocks.push_back({first, last, bytes_of(program, name, dims), &memory.tensors[name]});
  }
  memory.bytes = place_all(std::move(blocks));
  return memory;
}

}  // namespace moxie
