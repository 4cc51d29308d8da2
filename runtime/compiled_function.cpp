#include "runtime/compiled_function.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "compiler/analysis/verify_definition.h"
#include "compiler/support/error.h"
#include "runtime/domain_check.h"
#include "runtime/host_tensor.h"
#include "runtime/memory_limit.h"
#include "runtime/plan_cache.h"
#include "runtime/recently_used.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

std::vector<std::string> output_names(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

TensorShapes shapes_of(const Program& program, const std::vector<std::string>& tensors, const DimValues& dims) {
  TensorShapes shapes;
  for (const std::string& name : tensors) shapes.push_back(extents_of(program, name, dims));
  return shapes;
}

DimValues dims_for(const Program& program, const TensorShapes& inputs, const DimValues& given) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < std::min(inputs.size(), program.inputs.size()); ++i)
    shapes[program.inputs[i].name] = inputs[i];
  return dims_from_shapes(program, shapes, given);
}

/// Ranks and extents in a row.
std::vector<std::int64_t> flattened(const TensorShapes& shapes) {
  std::vector<std::int64_t> key;
  for (const auto& shape : shapes) {
    key.push_back(static_cast<std::int64_t>(shape.size()));
    key.insert(key.end(), shape.begin(), shape.end());
  }
  return key;
}

}  // namespace

// ---- BoundFunction ----

struct BoundFunction::State {
  struct BoundTensor {
    std::size_t bytes = 0;
    bool has_gaps = false;           // elements that no kernel writes and that are zero
    std::unique_ptr<Buffer> buffer;  // where the device has memory of its own
  };

  std::shared_ptr<Device> device;  // outlives the executable
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executable> executable;
  std::vector<BoundTensor> inputs, outputs;
  std::unordered_map<std::string, std::size_t> places;  // of tensors in `addresses`
  std::vector<void*> addresses;                         // of inputs, then of outputs
  TensorShapes input_shapes;
  bool checks_inputs = true;
  std::mutex mutex;

  BoundTensor make_tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
    BoundTensor tensor;
    tensor.bytes = static_cast<std::size_t>(element_count(shape)) * size_of(plan->program.dtype_of(name));
    tensor.has_gaps = has_gaps(plan->program, name);
    if (device->has_own_memory()) {
      tensor.buffer = device->make_buffer();
      tensor.buffer->resize(tensor.bytes);
    }
    places.emplace(name, addresses.size());
    addresses.push_back(nullptr);
    return tensor;
  }

  void check_inputs(std::span<const void* const> memory) const {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const InputDecl& declared = plan->program.inputs[i];
      if (has_limits(declared))
        check_domain(declared, input_shapes[i], {static_cast<const std::byte*>(memory[i]), inputs[i].bytes});
    }
  }

  /// Kernels never write where they read inputs, so that const may be cast away.
  void place_input(std::size_t i, const void* memory) {
    const BoundTensor& tensor = inputs[i];
    if (tensor.buffer && tensor.bytes > 0) std::memcpy(tensor.buffer->write().data(), memory, tensor.bytes);
    addresses[i] = tensor.buffer ? tensor.buffer->kernel_input() : const_cast<void*>(memory);
  }

  void place_output(std::size_t i, void* memory) {
    const BoundTensor& tensor = outputs[i];
    if (!tensor.buffer && tensor.has_gaps && tensor.bytes > 0) std::memset(memory, 0, tensor.bytes);
    addresses[inputs.size() + i] = tensor.buffer ? tensor.buffer->kernel_output() : memory;
  }
};

BoundFunction::BoundFunction(std::shared_ptr<Device> device, std::shared_ptr<const Plan> plan, DimValues dims)
    : dims_(std::move(dims)), state_(std::make_unique<State>()) {
  State& state = *state_;
  state.device = require_device(std::move(device));
  state.plan = std::move(plan);
  state.checks_inputs = moxie::checks_inputs(state.device->program_options());
  const Program& program = state.plan->program;
  for (const InputDecl& input : program.inputs) {
    state.input_shapes.push_back(extents_of(program, input.name, dims_));
    state.inputs.push_back(state.make_tensor(input.name, state.input_shapes.back()));
  }
  const std::vector<std::string> names = output_names(program);
  output_shapes_ = shapes_of(program, names, dims_);
  for (std::size_t i = 0; i < names.size(); ++i)
    state.outputs.push_back(state.make_tensor(names[i], output_shapes_[i]));
  state.executable = state.device->prepare(state.plan, dims_);
}

BoundFunction::~BoundFunction() = default;

void BoundFunction::run(std::span<const void* const> inputs, std::span<void* const> outputs, std::uint64_t seed,
                        std::uint64_t step) {
  State& state = *state_;
  if (inputs.size() != state.inputs.size() || outputs.size() != state.outputs.size())
    throw InternalError("a bound function was given another number of tensors than its program has");
  const std::scoped_lock lock(state.mutex);
  if (state.checks_inputs) state.check_inputs(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) state.place_input(i, inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) state.place_output(i, outputs[i]);
  const auto address = [&state](const std::string& name) { return state.addresses[state.places.at(name)]; };
  state.executable->run(address, seed, step);
  if (!state.device->has_own_memory()) return;
  for (const auto& tensor : state.outputs) tensor.buffer->prefetch();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::span<const std::byte> values = state.outputs[i].buffer->read();
    if (!values.empty()) std::memcpy(outputs[i], values.data(), values.size());
  }
}

// ---- CompiledFunction ----

struct CompiledFunction::State {
  Program program;
  DimValues given;
  std::shared_ptr<Device> device;
  std::vector<std::string> outputs;
  RecentlyUsed<std::vector<std::int64_t>, std::shared_ptr<BoundFunction>> bound;  // by the shapes of inputs
  RecentlyUsed<DimValues, std::shared_ptr<const Plan>> plans;  // by static dims, and classes of dynamic ones
  mutable std::mutex mutex;

  /// The plan for these static dims and for dynamic dims of these classes.
  std::shared_ptr<const Plan> plan_for(const DimValues& dims) {
    PlanTarget target = device->plan_target(program);
    DimValues key, statics = matrix_sizes(program, target, dims);
    for (const auto& [name, value] : dims) {
      const DimDecl* dim = program.find_dim(name);
      if (dim && !dim->dynamic) statics[name] = value;
    }
    if (target.is_scheduled()) target.extents = key = extent_classes(dims);
    for (const auto& [name, value] : statics) key[name] = value;
    std::shared_ptr<const Plan> plan = plans.find(key);
    const Program specialised = plan ? plan->program : specialise_all(program, statics);
    if (!is_right_for_all_dims(specialised)) verify_for(specialised, dims);
    if (!plan) {
      const auto make = [&](const Program& chosen) { return make_plan_for(chosen, target); };
      plan = within_memory(make(specialised), specialised, dims, memory_limit(device->program_options()), make);
      plans.insert(key, plan);
    }
    return plan;
  }

  std::shared_ptr<const Plan> make_plan_for(const Program& specialised, const PlanTarget& target) const {
    const ProgramOptions& options = device->program_options();
    Planner planner(specialised, chosen_checks(options), disabled_passes(options));
    PlanningCounts uncounted;
    return find_or_make_plan(device->plan_cache(), planner, target, uncounted);
  }
};

CompiledFunction::CompiledFunction(Program program, DimValues dims, std::shared_ptr<Device> device, std::size_t kept) {
  verify(program);
  std::vector<std::string> outputs = output_names(program);
  state_.reset(new State{std::move(program),
                         std::move(dims),
                         require_device(std::move(device)),
                         std::move(outputs),
                         RecentlyUsed<std::vector<std::int64_t>, std::shared_ptr<BoundFunction>>(kept),
                         RecentlyUsed<DimValues, std::shared_ptr<const Plan>>(kept),
                         {}});
}

CompiledFunction::~CompiledFunction() = default;

const Program& CompiledFunction::program() const { return state_->program; }
const std::vector<std::string>& CompiledFunction::outputs() const { return state_->outputs; }

std::shared_ptr<BoundFunction> CompiledFunction::bind(const TensorShapes& inputs) {
  State& state = *state_;
  const std::vector<std::int64_t> key = flattened(inputs);
  const std::scoped_lock lock(state.mutex);
  if (std::shared_ptr<BoundFunction> known = state.bound.find(key)) return known;
  const DimValues dims = dims_for(state.program, inputs, state.given);
  auto made = std::make_shared<BoundFunction>(state.device, state.plan_for(dims), dims);
  state.bound.insert(key, made);
  return made;
}

TensorShapes CompiledFunction::output_shapes(const TensorShapes& inputs) const {
  return shapes_of(state_->program, state_->outputs, dims_for(state_->program, inputs, state_->given));
}

std::size_t CompiledFunction::kept() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->bound.size();
}

}  // namespace moxie
