#include "runtime/aot/plan_driver.h"

#include "compiler/support/error.h"
#include "runtime/aot/failure_messages.h"
#include "runtime/host_tensor.h"

namespace moxie::aot {

PlanDriver::PlanDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface)
    : w_(module, head),
      plan_(plan),
      interface_(interface),
      call_(begin_call(w_, interface)),
      dims_(checked_dims(w_, interface, call_)),
      math_(w_, plan.fused.program, dims_),
      layout_(lay_out(plan)) {}

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

void PlanDriver::write(const LoweredSlices& /*slices*/, const std::optional<StepValues>& /*at*/) {
  throw InternalError("the plan of an AOT library has slices");
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
