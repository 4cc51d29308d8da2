#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/analysis/verify_definition.h"
#include "compiler/support/error.h"
#include "runtime/domain_check.h"
#include "runtime/memory_limit.h"
#include "runtime/recently_used.h"
#include "runtime/switches.h"
#include "runtime/tensor_binding.h"

namespace moxie {
namespace {

/// One input or output.
struct SessionTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::unique_ptr<Buffer> buffer;
};

/// What runs for one set of extents.
struct Prepared {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executable> executable;  // with its workspace
};

/// The plans of a Program for one device.
struct ProgramPlans {
  Planner planner;
  std::map<DimValues, std::shared_ptr<const Plan>> plans = {};  // by classes of extents, and sizes of matrices
};

/// Sets of extents that stay prepared: a server meets any batch size, and each holds a workspace of its own. To prepare
/// one again takes a tenth of a millisecond (a layer of 64 by 64 on a CPU), since plans and kernels are kept.
constexpr std::size_t kKeptPrepared = 16;

/// Whether a run can fail without the device itself being lost.
bool has_checks(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const PlanStep& step) {
    return !algebra_calls_of(step).empty() || std::ranges::any_of(kernels_of(step), [](const LoweredKernel* kernel) {
      return !kernel->program.checks.empty();
    });
  });
}

}  // namespace

struct Session::State {
  State(Program specialised, std::shared_ptr<Device> its_device)
      : device(std::move(its_device)), own{make_planner(std::move(specialised))} {}

  Planner make_planner(Program specialised) const {
    const ProgramOptions& options = device->program_options();
    return Planner(std::move(specialised), chosen_checks(options), disabled_passes(options));
  }

  std::shared_ptr<Device> device;
  ProgramPlans own;
  std::optional<ProgramPlans> frugal;  // of the Program with checkpoints, if a limit of memory asked for them
  std::int64_t most_memory = memory_limit(device->program_options());
  PlanningCounts planning;
  bool right_for_all = true;  // dims; else accesses are inside their tensors for some only
  DimValues given;
  RecentlyUsed<DimValues, std::shared_ptr<Prepared>> prepared{kKeptPrepared};  // by the values of the dynamic dims
  std::shared_ptr<Prepared> current;                                           // what ran last
  std::map<std::string, SessionTensor> tensors;
  TensorBindings bindings;       // tensors in memory of the caller
  bool bindings_checked = true;  // no output shares memory with another of them
  std::vector<std::pair<std::string, std::string>> feedback;
  bool fed = false;                 // the outputs hold what the inputs that were fed held before the last run
  bool can_fail = false;            // whether some step looks for values that it must refuse
  bool checks_inputs = true;        // whether values must lie in the declared domains
  std::set<std::string> unchecked;  // inputs that write() was asked for since the last run
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool shapes_changed = true;

  /// In memory of the session. Zeroed: elements outside the ranges of their axes stay so.
  void resize(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    forget_binding(name);
    const auto known = tensors.find(name);
    std::unique_ptr<Buffer> fresh = known == tensors.end() ? device->make_buffer() : nullptr;
    Buffer& buffer = fresh ? *fresh : *known->second.buffer;
    buffer.resize(static_cast<std::size_t>(element_count(shape)) * size_of(dtype));
    SessionTensor& tensor = tensors[name];
    if (fresh) tensor.buffer = std::move(fresh);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
  }

  void bind_shapes() {
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const auto& [name, tensor] : tensors) shapes[name] = tensor.shape;
    const DimValues dims = dims_from_shapes(program(), shapes, given);
    for (const Definition& definition : program().definitions) {
      if (!definition.output) continue;
      const std::vector<std::int64_t> extents = extents_of(program(), definition.name, dims);
      if (const auto bound = bindings.find(definition.name); bound != bindings.end())
        check_extents(definition.name, bound->second.view, extents);
      else
        resize(definition.name, definition.dtype, extents);
    }
    current = prepared.find(dims);
    if (!current) current = prepare(dims);
    shapes_changed = false;
  }

  std::shared_ptr<Prepared> prepare(const DimValues& dims) {
    if (!right_for_all) verify_for(program(), dims);
    const auto plan = within_memory(plan_for(own, dims), program(), dims, most_memory,
                                    [&](const Program& changed) { return frugal_plan_for(changed, dims); });
    can_fail |= has_checks(*plan);
    auto fresh = std::make_shared<Prepared>(Prepared{plan, device->prepare(plan, dims)});
    // What is forgotten takes along what its last run has to say.
    if (prepared.size() == kKeptPrepared) device->wait();
    prepared.insert(dims, fresh);
    return fresh;
  }

  const Program& program() const { return own.planner.program(); }

  /// The plan for extents of this class: extents that are close to each other share their code.
  std::shared_ptr<const Plan> plan_for(ProgramPlans& of, const DimValues& dims) {
    PlanTarget target = device->plan_target(of.planner.program());
    if (target.is_scheduled()) target.extents = extent_classes(dims);
    const DimValues sizes = matrix_sizes(of.planner.program(), target, dims);
    DimValues key = target.extents;  // by which a library or kernels factor a batch
    for (const auto& [name, size] : sizes) key[name] = size;
    auto& plan = of.plans[key];
    if (plan) return plan;
    if (sizes.empty()) return plan = find_or_make(of.planner, target);
    Planner for_sizes = make_planner(specialise_all(of.planner.program(), sizes));
    return plan = find_or_make(for_sizes, target);
  }

  std::shared_ptr<const Plan> frugal_plan_for(const Program& with_checkpoints, const DimValues& dims) {
    if (!frugal) frugal = ProgramPlans{make_planner(with_checkpoints)};
    return plan_for(*frugal, dims);
  }

  /// For no extents in particular.
  std::shared_ptr<const Plan> unscheduled_plan() {
    auto& plan = own.plans[{}];
    if (!plan) plan = find_or_make(own.planner, device->plan_target(program()));
    return plan;
  }

  std::shared_ptr<const Plan> find_or_make(Planner& planner, const PlanTarget& target) {
    return find_or_make_plan(device->plan_cache(), planner, target, planning);
  }

  SessionTensor& find(const std::string& name) {
    const auto it = tensors.find(name);
    if (it == tensors.end()) throw TypeError("the session holds no tensor '" + name + "'");
    return it->second;
  }

  /// What was fed back lies in the input's memory.
  std::string holder_of(const std::string& name) const {
    for (const auto& [output, input] : feedback) {
      if (output == name) return input;
    }
    return name;
  }

  /// Whether the tensor is in memory of the session, with this shape.
  bool holds(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const auto known = tensors.find(name);
    return known != tensors.end() && known->second.shape == shape && !bindings.contains(name);
  }

  const InputDecl& declared(const std::string& input) const {
    const InputDecl* found = program().find_input(input);
    if (!found) throw TypeError("program " + program().name + " has no input '" + input + "'");
    return *found;
  }

  // ---- Memory of the caller ----

  void bind(const std::string& name, const TensorView& view) {
    TensorBinding binding = make_binding(program(), name, view);
    const auto exchanges = [&](const auto& pair) { return pair.first == name || pair.second == name; };
    if (std::ranges::any_of(feedback, exchanges))
      throw UsageError(
          fmt::format("tensor {} cannot be bound: feed_back() exchanges its memory from run to run", name));
    auto buffer = buffer_for(*device, binding);
    const auto known = tensors.find(name);
    shapes_changed |= known == tensors.end() || known->second.shape != view.shape;
    tensors[name] = {view.dtype, view.shape, std::move(buffer)};
    bindings[name] = std::move(binding);
    bindings_checked = false;
    unchecked.erase(name);
  }

  /// The tensor is lost with the memory of the caller.
  void forget_binding(const std::string& name) {
    if (bindings.erase(name) == 0) return;
    tensors.erase(name);
    shapes_changed = true;
  }

  /// Before a run: bindings go together, and buffers have what it reads. Elements that no kernel writes are zero.
  void fetch_bound() {
    if (!bindings_checked) check_shared_memory(bindings);
    bindings_checked = true;
    for (const auto& [name, binding] : bindings) {
      Buffer& buffer = *tensors.at(name).buffer;
      if (binding.is_output && binding.in_place && binding.has_gaps) buffer.resize(bytes_of(binding.view));
      if (binding.is_output) continue;
      if (!binding.in_place) buffer.copy_from(binding.view);
      if (binding.is_checked && checks_inputs) check_domain(declared(name), binding.view.shape, buffer.read());
    }
  }

  /// After a run: the outputs are in memory of the caller, or on their way.
  void send_bound() {
    for (auto& [name, binding] : bindings) {
      if (!binding.is_output || binding.in_place) continue;
      Buffer& buffer = *tensors.at(name).buffer;
      binding.is_pending = is_on_host(binding.view);
      if (binding.is_pending) buffer.prefetch();
      if (!binding.is_pending) buffer.copy_to(binding.view);
    }
    if (!device->has_own_memory()) deliver();
  }

  void deliver() {
    for (auto& [name, binding] : bindings) {
      if (binding.is_pending) tensors.at(name).buffer->copy_to(binding.view);
      binding.is_pending = false;
    }
  }

  void exchange_fed() {
    for (const auto& [output, input] : feedback) std::swap(tensors.at(output).buffer, tensors.at(input).buffer);
    fed = !fed;
  }

  /// Does what may be the first to notice that a run failed.
  template <class Work>
  auto settle(const Work& work) {
    try {
      return work();
    } catch (const DeviceError&) {
      if (fed) {
        exchange_fed();
        --step;
      }
      throw;
    }
  }

  /// What the last run fed the input is about to be lost, with what it held before: that run must be known to be good.
  void settle_last_run(const std::string& input) {
    const auto is_fed = [&](const auto& pair) { return pair.second == input; };
    if (!fed || std::ranges::none_of(feedback, is_fed)) return;
    settle([&] { device->wait(); });
    fed = false;
  }

  void check_written() {
    for (const std::string& input : unchecked) {
      const SessionTensor& tensor = tensors.at(input);
      check_domain(declared(input), tensor.shape, settle([&] { return tensor.buffer->read(); }));
    }
    unchecked.clear();
  }
};

Session::Session(const Program& program, const DimValues& dims, std::shared_ptr<Device> device)
    : state_(std::make_unique<State>(specialise(program, dims), require_device(std::move(device)))) {
  state_->right_for_all = is_right_for_all_dims(state_->program());
  state_->given = dims;
  state_->checks_inputs = moxie::checks_inputs(state_->device->program_options());
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

namespace {

/// As the tensor is declared.
HostTensor convert(const std::string& input, const HostTensor& tensor, DType dtype) {
  try {
    return make_host_tensor(dtype, tensor.shape, to_doubles(tensor));
  } catch (const DataError& error) {
    throw DataError(fmt::format("input {}: {}", input, error.what()));
  }
}

}  // namespace

void Session::set(const std::string& input, const HostTensor& tensor) {
  const InputDecl& declared = state_->declared(input);
  if (tensor.data.size() != static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype))
    throw ShapeError(fmt::format("{} bytes do not fill input {} of shape [{}]", tensor.data.size(), input,
                                 fmt::join(tensor.shape, ",")));
  HostTensor converted;
  if (tensor.dtype != declared.dtype) converted = convert(input, tensor, declared.dtype);
  const HostTensor& values = tensor.dtype == declared.dtype ? tensor : converted;
  if (state_->checks_inputs) check_domain(declared, values.shape, values.data);
  if (!state_->holds(input, values.shape)) resize(input, values.shape);
  std::ranges::copy(values.data, write(input, Domain::checked).data());
}

void Session::set(const std::string& input, const TensorView& view) {
  const InputDecl& declared = state_->declared(input);
  make_binding(state_->program(), input, view);  // for its checks
  if (!is_on_host(view))
    throw DeviceError(
        fmt::format("input {} was set from memory of '{}', but set() reads memory of the host; let bind() "
                    "take memory of a GPU",
                    input, view.device));
  HostTensor values{view.dtype, view.shape, std::vector<std::byte>(bytes_of(view))};
  pack_elements(view, values.data);
  if (state_->checks_inputs) check_domain(declared, values.shape, values.data);
  if (!state_->holds(input, view.shape)) resize(input, view.shape);
  std::ranges::copy(values.data, write(input, Domain::checked).data());
}

void Session::bind(const std::string& tensor, const TensorView& view) { state_->bind(tensor, view); }
void Session::unbind(const std::string& tensor) { state_->forget_binding(tensor); }

TensorView Session::view(const std::string& tensor) const {
  const std::string holder = state_->holder_of(tensor);
  const SessionTensor& found = state_->find(holder);
  return {.data = found.buffer->kernel_input(),
          .shape = found.shape,
          .dtype = found.dtype,
          .device = state_->device->has_own_memory() ? state_->device->name() : "cpu",
          .read_only = true};
}

void Session::resize(const std::string& input, std::vector<std::int64_t> shape) {
  const InputDecl& declared = state_->declared(input);
  state_->settle_last_run(input);
  state_->shapes_changed = true;
  state_->resize(input, declared.dtype, std::move(shape));
  if (state_->checks_inputs && has_limits(declared)) state_->unchecked.insert(input);
}

void Session::feed_back(const std::string& output, const std::string& input) {
  const Program& program = state_->program();
  for (const std::string& name : {output, input}) {
    if (state_->bindings.contains(name))
      throw UsageError(
          fmt::format("tensor {} cannot be fed back: it is bound to memory of the caller; unbind() it", name));
  }
  if (program.shape_of(output) != program.shape_of(input) || program.dtype_of(output) != program.dtype_of(input)) {
    throw ShapeError("output " + output + " cannot become input " + input + ": shapes or dtypes differ");
  }
  state_->feedback.emplace_back(output, input);
  state_->fed = false;  // what ran before fed this pair nothing
}

void Session::run() {
  State& state = *state_;
  // The outputs are about to be overwritten, and with them what the inputs held before the last run.
  if (state.fed && state.can_fail && !state.feedback.empty()) wait();
  state.fed = false;
  state.check_written();
  if (state.shapes_changed) state.bind_shapes();
  state.fetch_bound();
  const auto address = [&](const std::string& name) {
    Buffer& buffer = *state.tensors.at(name).buffer;
    return state.program().find_input(name) ? buffer.kernel_input() : buffer.kernel_output();
  };
  state.current->executable->run(address, state.seed, state.step);
  ++state.step;
  state.exchange_fed();
  state.send_bound();
}

void Session::take_back() {
  if (state_->fed) state_->exchange_fed();
}

void Session::wait() {
  state_->settle([&] {
    state_->device->wait();
    state_->deliver();
  });
}

void Session::prefetch(const std::string& tensor) { state_->find(tensor).buffer->prefetch(); }

std::span<const std::byte> Session::read(const std::string& tensor) const {
  return state_->settle([&] { return state_->find(tensor).buffer->read(); });
}

std::span<std::byte> Session::write(const std::string& input, Domain domain) {
  const InputDecl& declared = state_->declared(input);
  if (state_->bindings.contains(input)) resize(input, std::vector<std::int64_t>(state_->find(input).shape));
  SessionTensor& tensor = state_->find(input);
  state_->settle_last_run(input);
  state_->unchecked.erase(input);
  if (domain == Domain::check && state_->checks_inputs && has_limits(declared)) state_->unchecked.insert(input);
  return state_->settle([&] { return tensor.buffer->write(); });
}

HostTensor Session::get(const std::string& name) const {
  const std::string holder = state_->holder_of(name);
  const std::span<const std::byte> bytes = read(holder);
  const SessionTensor& tensor = state_->find(holder);
  return {tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()}};
}

void Session::set_random_state(std::uint64_t seed, std::uint64_t step) {
  state_->seed = seed;
  state_->step = step;
}

const Device& Session::device() const { return *state_->device; }
std::uint64_t Session::step() const { return state_->step; }
const Program& Session::program() const { return state_->program(); }
const Plan& Session::plan() const { return state_->current ? *state_->current->plan : *state_->unscheduled_plan(); }
const PlanningCounts& Session::planning() const { return state_->planning; }
std::int64_t Session::workspace_bytes() const {
  return state_->current ? state_->current->executable->workspace_bytes() : 0;
}

}  // namespace moxie
