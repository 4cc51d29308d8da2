#include "tests/aot/aot_sample.h"

#include <algorithm>
#include <stdexcept>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/differentiate.h"
#include "ops/catalogue.h"
#include "runtime/cpu/host.h"
#include "runtime/session.h"
#include "tools/commands/check_sample.h"
#include "tools/commands/sample_inputs.h"

namespace moxie::test {

CCall sample_call(const std::string& function, const Program& program, DType dtype) {
  const Op* op = find_op(program.name);
  const auto wrt = op ? differentiable_inputs(*op, program) : std::vector<std::string>{};
  const Sample sample = make_sample(program, {}, wrt, 3);
  const Program source = with_dtype(program, dtype);
  const bool has_gradient = !wrt.empty() || !op;
  CCall call{function, has_gradient ? differentiate(source, outputs_of(source), wrt) : source, sample.dims, {}, 7, 3};
  for (const InputDecl& input : call.program.inputs) {
    const auto shape = extents_of(call.program, input.name, call.dims);
    call.inputs.emplace(input.name, make_host_tensor(input.dtype, shape, sample.inputs.at(input.name)));
  }
  return call;
}

namespace {

CCall call_of_program(Program program, const DimValues& dims) {
  CCall call{"f", std::move(program), dims, {}, 7, 3};
  std::uint64_t seed = 1;
  for (const InputDecl& input : call.program.inputs) {
    const auto shape = extents_of(call.program, input.name, dims);
    const auto count = static_cast<std::size_t>(element_count(shape));
    call.inputs.emplace(input.name, make_host_tensor(input.dtype, shape, sample_values(input.domain, count, seed++)));
  }
  return call;
}

}  // namespace

CCall call_of(const std::string& text, const DimValues& dims) { return call_of_program(parse(text), dims); }

CCall gradients_of(const std::string& text, const DimValues& dims) {
  const Program program = parse(text);
  return call_of_program(differentiate(program, outputs_of(program), {}), dims);
}

std::string host_target() {
  for (const MachineLevel& level : machine_levels()) {
    if (host_supports(level.name)) return "cpu:" + std::string(level.name);
  }
  throw std::runtime_error("moxie has no code for this processor");
}

DimValues static_dims(const CCall& call) {
  DimValues dims;
  for (const DimDecl& dim : call.program.dims) {
    if (!dim.dynamic) dims.emplace(dim.name, call.dims.at(dim.name));
  }
  return dims;
}

DeviceRun run_with_plan(const CCall& call, const std::shared_ptr<Device>& device) {
  Session session(call.program, call.dims, device);
  for (const auto& [name, tensor] : call.inputs) session.set(name, tensor);
  session.set_random_state(call.seed, call.step);
  session.run();
  DeviceRun run{
      {}, std::ranges::any_of(session.plan().steps, [](const PlanStep& step) { return !products_of(step).empty(); })};
  for (const std::string& name : outputs_of(call.program)) run.outputs.emplace(name, session.get(name));
  return run;
}

Tensors run_on(const CCall& call, const std::shared_ptr<Device>& device) { return run_with_plan(call, device).outputs; }

}  // namespace moxie::test
