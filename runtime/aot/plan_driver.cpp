#include "runtime/aot/plan_driver.h"

#include "compiler/support/error.h"
#include "runtime/aot/failure_messages.h"
#include "runtime/aot/slice_math.h"
#include "runtime/host_tensor.h"

namespace moxie::aot {

PlanDriver::PlanDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface)
    : w_(module, head),
      plan_(plan),
      interface_(interface),
      call_(begin_call(w_, interface)),
      math_(w_, plan.fused.program, checked_dims(w_, interface, call_)),
      layout_(lay_out(plan)) {
  for (const PlanStep& step : plan.steps) {
    if (const auto* slices = std::get_if<LoweredSlices>(&step)) set_dims_of_first(w_, math_, slices->slices);
  }
}

void PlanDriver::write_workspace() {
  const Val total = measure_workspace().total;
  const Pointer bytes{"%bytes"};
  w_.leave_when(w_.is_null(bytes), wrong_argument, [&] {
    complain(w_, call_.message, escaped(interface_.name) + "_workspace: nowhere to put the size: the pointer is null");
  });
  w_.store(bytes, total);
  w_.finish();
}

void PlanDriver::write_run() {
  const SlotPlaces slots = measure_workspace();
  const std::vector<Pointer> addresses = checked_tensors(w_, interface_, call_, math_);
  for (std::size_t k = 0; k < addresses.size(); ++k) places_.emplace(interface_.tensors[k].name, addresses[k]);
  check_reach();
  check_workspace(w_, interface_, call_, slots.total);
  place_workspace(slots);
  start();
  clear_gaps();
  for (const PlanStep& step : plan_.steps) std::visit([&](const auto& part) { write(part, {}); }, step);
  w_.finish();
}

// ---- Memory ----

Val PlanDriver::written_count(const LoweredKernel& kernel, const std::string& tensor) {
  return kernel.in_scan ? math_.slice_count(tensor) : math_.count(plan_.fused.program.shape_of(tensor));
}

Val PlanDriver::bytes_of(const Block& block) {
  if (!block.partial_of) return math_.bytes(block.tensor);
  const LoweredKernel& kernel = *block.partial_of;
  const Val chunks = chunks_of(kernel);
  const Val one = kernel.in_scan ? math_.slice_bytes(block.tensor) : math_.bytes(block.tensor);
  return w_.select(w_.is("eq", chunks, w_.integer(1)), w_.integer(0), w_.saturating_mul(chunks, one));
}

SlotPlaces PlanDriver::measure_workspace() {
  return place_slots(w_, layout_, [this](const Block& block) { return bytes_of(block); }, bytes_before_slots());
}

void PlanDriver::place_workspace(const SlotPlaces& slots) {
  workspace_ = workspace_start(w_);
  for (const Block& block : layout_.blocks) {
    const Pointer place = w_.offset(workspace_, slots.offsets[block.slot]);
    if (block.partial_of)
      partials_.emplace(std::pair(block.partial_of, block.tensor), place);
    else
      places_.emplace(block.tensor, place);
  }
}

void PlanDriver::clear_gaps() {
  for (const Definition& definition : plan_.fused.program.definitions) {
    if (definition.output && has_gaps(plan_.fused.program, definition.name))
      clear(places_.at(definition.name), math_.bytes(definition.name));
  }
}

Pointer PlanDriver::target_of(const LoweredKernel& kernel, const std::string& tensor,
                              const std::optional<StepValues>& at) {
  const Pointer& place = places_.at(tensor);
  if (!kernel.in_scan) return place;
  return w_.offset(place, w_.mul(scan_value(argument_of_step(plan_.fused, tensor), *at), math_.slice_bytes(tensor)));
}

Pointer PlanDriver::buffer_of(const LoweredKernel& kernel, const BufferUse& use, const Val& chunks,
                              const std::optional<StepValues>& at) {
  if (!use.partial) return places_.at(use.tensor);
  const Pointer target = target_of(kernel, use.tensor, at);
  if (!kernel.chunks) return target;
  const Pointer& partials = partials_of(kernel, use.tensor);
  if (has_gaps(plan_.fused.program, use.tensor)) clear(partials, bytes_of(*layout_.find(use.tensor, &kernel)));
  return w_.select(w_.is("sgt", chunks, w_.integer(1)), partials, target);
}

// ---- Steps ----

void PlanDriver::write(const MatrixProduct& product, const std::optional<StepValues>& /*at*/) {
  throw InternalError("the plan of an AOT library leaves " + product.definition.name + " to a library");
}

void PlanDriver::write(const AlgebraCall& call, const std::optional<StepValues>& /*at*/) {
  throw InternalError("the plan of an AOT library leaves " + call.definition.name + " to a library");
}

void PlanDriver::write(const OrderedSumCall& call, const std::optional<StepValues>& /*at*/) {
  throw InternalError("the plan of an AOT library sorts the keys of " + call.definition.name);
}

/// What is computed for one slice is known in the loop over slices alone.
void PlanDriver::write(const LoweredSlices& step, const std::optional<StepValues>& /*at*/) {
  const DimMath::Values dims = math_.values();
  const std::map<std::string, Pointer> places = places_;
  const Val count = count_of_slices(w_, math_, step.slices);
  w_.when(w_.is("eq", count, w_.integer(0)), [&] { clear_sums(step.slices); });
  w_.loop(count, [&](const Val& done) {
    set_dims_of_run(w_, math_, step.slices, done);
    write_slice(step);
  });
  math_.set_all(dims);
  places_ = places;
}

void PlanDriver::write_slice(const LoweredSlices& step) {
  const Slices& slices = step.slices;
  for (const auto& [name, view] : slices.views) places_.insert_or_assign(name, part_of_whole(view));
  for (const LoweredSliceStep& own : step.steps) std::visit([&](const auto& part) { write(part, {}); }, own);
  for (const auto& [name, view] : slices.parts) {
    Val adds = w_.is("ne", w_.integer(0), w_.integer(0));
    for (const std::string& first : slices.sums.at(name))
      adds = w_.ir().binary("or", adds, w_.is("ne", math_.value(first), w_.integer(0)));
    add_part(name, part_of_whole(view), adds);
  }
}

/// Where the elements begin that belong to the slice.
Pointer PlanDriver::part_of_whole(const SliceView& view) {
  const Program& program = plan_.fused.program;
  const std::vector<Affine> shape = program.shape_of(view.tensor);
  Val element = w_.integer(0);
  for (std::size_t k = 0; k < shape.size(); ++k) {
    element = w_.mul(element, math_.extent(shape[k]));
    if (k < view.first.size()) element = w_.add(element, math_.value(view.first[k]));
  }
  const auto bytes = static_cast<std::int64_t>(size_of(program.dtype_of(view.tensor)));
  return w_.offset(places_.at(view.tensor), w_.mul(element, w_.integer(bytes)));
}

/// Sums of nothing are 0.
void PlanDriver::clear_sums(const Slices& slices) {
  for (const auto& [name, summed] : slices.sums) {
    const auto part = slices.parts.find(name);
    const std::string& whole = (part == slices.parts.end() ? slices.views.at(name) : part->second).tensor;
    clear(places_.at(whole), math_.bytes(whole));
  }
}

void PlanDriver::write(const LoweredScan& scan, const std::optional<StepValues>& /*at*/) {
  const Val rounds = math_.extent(scan.extent);
  w_.loop(rounds, [&](const Val& round) {
    const Val left = w_.sub(w_.sub(rounds, w_.integer(1)), round);
    const StepValues at{scan.backwards ? left : round, left};
    for (const LoweredScanStep& part : scan.steps) std::visit([&](const auto& p) { write(p, at); }, part);
  });
}

Val PlanDriver::scan_value(const std::string& argument, const StepValues& at) {
  const auto folded = folded_step(argument);
  if (!folded) return at.step;
  return w_.rem(w_.add(at.left, w_.integer(folded->lag)), w_.integer(folded->count));
}

}  // namespace moxie::aot
