#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/ir/verify_definition.h"
#include "compiler/support/error.h"
#include "runtime/domain_check.h"
#include "runtime/recently_used.h"
#include "runtime/switches.h"

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

/// Sets of extents that stay prepared: a server meets any batch size, and each holds a workspace of its own. To prepare
/// one again takes a millisecond or two, since plans and kernels are kept.
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
  explicit State(Program specialised) : planner(std::move(specialised), chosen_checks(), disabled_passes()) {}

  Planner planner;
  PlanningCounts planning;
  std::map<DimValues, std::shared_ptr<const Plan>> plans;  // by classes of extents, where the device has schedules
  std::shared_ptr<const Plan> plan_for_all;                // for no extents in particular, if it was asked for
  bool right_for_all = true;                               // dims; else accesses are inside their tensors for some only
  DimValues given;
  std::shared_ptr<Device> device;
  RecentlyUsed<DimValues, std::shared_ptr<Prepared>> prepared{kKeptPrepared};  // by the values of the dynamic dims
  std::shared_ptr<Prepared> current;                                           // what ran last
  std::map<std::string, SessionTensor> tensors;
  std::vector<std::pair<std::string, std::string>> feedback;
  bool fed = false;                 // the outputs hold what the inputs that were fed held before the last run
  bool can_fail = false;            // whether some step looks for values that it must refuse
  bool checks_inputs = true;        // whether values must lie in the declared domains
  std::set<std::string> unchecked;  // inputs that write() was asked for since the last run
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool shapes_changed = true;

  /// Zeroed: elements outside the ranges of their axes stay so.
  void resize(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
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
      if (definition.output) resize(definition.name, definition.dtype, extents_of(program(), definition.name, dims));
    }
    current = prepared.find(dims);
    if (!current) current = prepare(dims);
    shapes_changed = false;
  }

  std::shared_ptr<Prepared> prepare(const DimValues& dims) {
    if (!right_for_all) verify_for(program(), dims);
    const auto plan = plan_for(dims);
    can_fail |= has_checks(*plan);
    auto fresh = std::make_shared<Prepared>(Prepared{plan, device->prepare(plan, dims)});
    // What is forgotten takes along what its last run has to say.
    if (prepared.size() == kKeptPrepared) device->wait();
    prepared.insert(dims, fresh);
    return fresh;
  }

  const Program& program() const { return planner.program(); }

  /// The plan for extents of this class: extents that are close to each other share their code.
  std::shared_ptr<const Plan> plan_for(const DimValues& dims) {
    PlanTarget target = device->plan_target(program());
    if (target.is_scheduled()) target.extents = extent_classes(dims);
    if (const DimValues sizes = matrix_sizes(program(), target, dims); !sizes.empty())
      return plan_for_sizes(target, sizes);
    if (!target.is_scheduled()) return unscheduled_plan();
    auto& scheduled = plans[target.extents];
    if (!scheduled) scheduled = find_or_make(target);
    return scheduled;
  }

  std::shared_ptr<const Plan> plan_for_sizes(const PlanTarget& target, const DimValues& sizes) {
    DimValues key = target.extents;  // by which a library or kernels factor a batch
    for (const auto& [name, size] : sizes) key[name] = size;
    auto& specialised = plans[key];
    if (!specialised) {
      Planner for_sizes(specialise_all(program(), sizes), chosen_checks(), disabled_passes());
      specialised = find_or_make_plan(device->plan_cache(), for_sizes, target, planning);
    }
    return specialised;
  }

  std::shared_ptr<const Plan> unscheduled_plan() {
    if (!plan_for_all) plan_for_all = find_or_make(device->plan_target(program()));
    return plan_for_all;
  }

  std::shared_ptr<const Plan> find_or_make(const PlanTarget& target) {
    return find_or_make_plan(device->plan_cache(), planner, target, planning);
  }

  SessionTensor& find(const std::string& name) {
    const auto it = tensors.find(name);
    if (it == tensors.end()) throw TypeError("the session holds no tensor '" + name + "'");
    return it->second;
  }

  const InputDecl& declared(const std::string& input) const {
    const InputDecl* found = program().find_input(input);
    if (!found) throw TypeError("program " + program().name + " has no input '" + input + "'");
    return *found;
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
    : state_(std::make_unique<State>(specialise(program, dims))) {
  state_->right_for_all = is_right_for_all_dims(state_->program());
  state_->given = dims;
  state_->device = std::move(device);
  state_->checks_inputs = moxie::checks_inputs();
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
  const auto known = state_->tensors.find(input);
  if (known == state_->tensors.end() || known->second.shape != values.shape) resize(input, values.shape);
  std::ranges::copy(values.data, write(input, Domain::checked).data());
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
  const auto address = [&](const std::string& name) {
    Buffer& buffer = *state.tensors.at(name).buffer;
    return state.program().find_input(name) ? buffer.kernel_input() : buffer.kernel_output();
  };
  state.current->executable->run(address, state.seed, state.step);
  ++state.step;
  state.exchange_fed();
}

void Session::take_back() {
  if (state_->fed) state_->exchange_fed();
}

void Session::wait() {
  state_->settle([&] { state_->device->wait(); });
}

void Session::prefetch(const std::string& tensor) { state_->find(tensor).buffer->prefetch(); }

std::span<const std::byte> Session::read(const std::string& tensor) const {
  return state_->settle([&] { return state_->find(tensor).buffer->read(); });
}

std::span<std::byte> Session::write(const std::string& input, Domain domain) {
  const InputDecl& declared = state_->declared(input);
  SessionTensor& tensor = state_->find(input);
  state_->settle_last_run(input);
  state_->unchecked.erase(input);
  if (domain == Domain::check && state_->checks_inputs && has_limits(declared)) state_->unchecked.insert(input);
  return state_->settle([&] { return tensor.buffer->write(); });
}

HostTensor Session::get(const std::string& name) const {
  // What was fed back lies in the input's memory.
  std::string holder = name;
  for (const auto& [output, input] : state_->feedback) {
    if (output == name) holder = input;
  }
  const std::span<const std::byte> bytes = read(holder);
  const SessionTensor& tensor = state_->find(holder);
  return {tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()}};
}

void Session::set_random_state(std::uint64_t seed, std::uint64_t step) {
  state_->seed = seed;
  state_->step = step;
}

std::uint64_t Session::step() const { return state_->step; }
const Program& Session::program() const { return state_->program(); }
const Plan& Session::plan() const { return state_->current ? *state_->current->plan : *state_->unscheduled_plan(); }
const PlanningCounts& Session::planning() const { return state_->planning; }
std::int64_t Session::workspace_bytes() const {
  return state_->current ? state_->current->executable->workspace_bytes() : 0;
}

}  // namespace moxie
