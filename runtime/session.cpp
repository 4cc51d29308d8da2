#include "runtime/session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// Memory of one input or output, on a cache line of its own.
struct TensorMemory {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t size = 0;
  std::unique_ptr<std::byte, FreeMemory> data;

  void resize(DType wanted, std::vector<std::int64_t> extents) {
    const std::size_t bytes = static_cast<std::size_t>(element_count(extents)) * size_of(wanted);
    if (!data || bytes > size) {
      const std::size_t room = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
      data.reset(static_cast<std::byte*>(std::aligned_alloc(64, room)));
      if (!data) throw DeviceError("out of memory: " + std::to_string(room) + " bytes were wanted");
    }
    std::memset(data.get(), 0, bytes);  // elements outside the ranges of their axes stay zero
    dtype = wanted;
    shape = std::move(extents);
    size = bytes;
  }
};

}  // namespace

struct Session::State {
  std::shared_ptr<const Plan> plan;
  DimValues given;
  std::shared_ptr<Device> device;
  std::map<DimValues, std::unique_ptr<Executable>> executables;  // by the values of the dynamic dims
  Executable* current = nullptr;
  std::map<std::string, TensorMemory> tensors;
  std::vector<std::pair<std::string, std::string>> feedback;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool shapes_changed = true;

  void bind_shapes() {
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const auto& [name, tensor] : tensors) shapes[name] = tensor.shape;
    const DimValues dims = dims_from_shapes(plan->program, shapes, given);
    for (const Definition& definition : plan->program.definitions) {
      if (definition.output) tensors[definition.name].resize(definition.dtype, extents_of(plan->program, definition.name, dims));
    }
    auto& executable = executables[dims];
    if (!executable) executable = device->prepare(plan, dims);
    current = executable.get();
    shapes_changed = false;
  }
};

Session::Session(const Program& program, const DimValues& dims, std::shared_ptr<Device> device) : state_(std::make_unique<State>()) {
  state_->plan = std::make_shared<const Plan>(make_plan(specialise(program, dims), chosen_checks()));
  state_->given = dims;
  state_->device = std::move(device);
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

void Session::set(const std::string& input, const HostTensor& tensor) {
  const InputDecl* declared = state_->plan->program.find_input(input);
  if (!declared) throw TypeError("program " + state_->plan->program.name + " has no input '" + input + "'");
  TensorMemory& memory = state_->tensors[input];
  if (!memory.data || memory.shape != tensor.shape) {
    memory.resize(declared->dtype, tensor.shape);
    state_->shapes_changed = true;
  }
  const HostTensor converted = tensor.dtype == declared->dtype ? tensor : make_host_tensor(declared->dtype, tensor.shape, to_doubles(tensor));
  std::ranges::copy(converted.data, memory.data.get());
}

void Session::feed_back(const std::string& output, const std::string& input) {
  const Program& program = state_->plan->program;
  if (program.shape_of(output) != program.shape_of(input) || program.dtype_of(output) != program.dtype_of(input)) {
    throw ShapeError("output " + output + " cannot become input " + input + ": shapes or dtypes differ");
  }
  state_->feedback.emplace_back(output, input);
}

void Session::run() {
  if (state_->shapes_changed) state_->bind_shapes();
  state_->current->run([&](const std::string& name) -> void* { return state_->tensors.at(name).data.get(); }, state_->seed, state_->step);
  ++state_->step;
  for (const auto& [output, input] : state_->feedback) std::swap(state_->tensors.at(output).data, state_->tensors.at(input).data);
}

std::span<std::byte> Session::bytes(const std::string& tensor) {
  const auto it = state_->tensors.find(tensor);
  if (it == state_->tensors.end()) throw TypeError("the session holds no tensor '" + tensor + "'");
  return {it->second.data.get(), it->second.size};
}

HostTensor Session::get(const std::string& name) const {
  // What was fed back lies in the input's memory.
  std::string holder = name;
  for (const auto& [output, input] : state_->feedback) {
    if (output == name) holder = input;
  }
  const auto it = state_->tensors.find(holder);
  if (it == state_->tensors.end()) throw TypeError("the session holds no tensor '" + name + "'");
  const TensorMemory& memory = it->second;
  return {memory.dtype, memory.shape, std::vector<std::byte>(memory.data.get(), memory.data.get() + memory.size)};
}

void Session::set_random_state(std::uint64_t seed, std::uint64_t step) {
  state_->seed = seed;
  state_->step = step;
}

std::uint64_t Session::step() const { return state_->step; }
const Plan& Session::plan() const { return *state_->plan; }
std::int64_t Session::workspace_bytes() const { return state_->current ? state_->current->workspace_bytes() : 0; }

}  // namespace moxie
