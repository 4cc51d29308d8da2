#include "runtime/cuda/cuda_executable.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/error.h"
#include "runtime/constant_steps.h"
#include "runtime/cuda/cuda_tuning.h"
#include "runtime/host_tensor.h"
#include "runtime/log.h"
#include "runtime/tuner.h"

namespace moxie::cuda {
namespace {

bool draws_random(const LoadedKernel& code) {
  const auto& parameters = code.compiled().kernel.parameters;
  return std::ranges::find(parameters, CudaParameter::Kind::random, &CudaParameter::kind) != parameters.end();
}

std::vector<const LoweredKernel*> all_kernels(const Plan& plan) {
  std::vector<const LoweredKernel*> kernels;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) kernels.push_back(kernel);
  }
  return kernels;
}

/// Code of the cache that the driver refuses is compiled again, once.
LoadedKernel load(const std::shared_ptr<Gpu>& gpu, CompiledKernel compiled, KernelBuilder& builder) {
  if (!compiled.is_from_cache) return {gpu, std::move(compiled)};
  try {
    return {gpu, compiled};
  } catch (const RefusedCode& error) {
    log_info(LogChannel::Cache, "{}", error.what());
  }
  return {gpu, compile_again(std::move(compiled), builder)};
}

SharedKernels::Key key_of(const KernelRequest& request) {
  return {request.lowered, print(request.preference), request.wide_index};
}

/// Compiles what no executable of the plan has had compiled, with its mutex held.
void load_missing(const std::shared_ptr<Gpu>& gpu, std::vector<KernelRequest> requests, KernelBuilder& builder,
                  SharedKernels& shared) {
  std::erase_if(requests, [&](const KernelRequest& request) { return shared.loaded.contains(key_of(request)); });
  auto compiled = compile_kernels(requests, builder);
  for (std::size_t k = 0; k < compiled.size(); ++k)
    shared.loaded[key_of(requests[k])] =
        std::make_shared<const LoadedKernel>(load(gpu, std::move(compiled[k]), builder));
}

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Gpu> gpu, KernelBuilder& builder, const Multiply& multiply,
                               const std::shared_ptr<Solver>& solver, SharedKernels& shared,
                               std::shared_ptr<const Plan> plan, DimValues dims)
    : gpu_(std::move(gpu)),
      cache_(builder.cache),
      multiply_(multiply),
      plan_(std::move(plan)),
      dims_(with_slice_dims(*plan_, std::move(dims))),
      constant_(constant_steps(*plan_)),
      random_(gpu_),
      graphs_(gpu_) {
  load_kernels(builder, shared, gpu_->limits());
  prepare_algebra(solver, builder);
  place_memory();
  find_outside();
  if (random_is_drawn_) random_.resize(sizeof(CudaRandomState));
  board_ = std::make_shared<StatusBoard>(gpu_, plan_->program.name, all_kernels(*plan_), checked_calls());
}

CudaExecutable::~CudaExecutable() { gpu_->settle(); }

void CudaExecutable::load_kernels(KernelBuilder& builder, SharedKernels& shared, const GpuLimits& limits) {
  std::vector<KernelRequest> requests;
  for (std::size_t step = 0; step < plan_->steps.size(); ++step) {
    for (const LoweredKernel* kernel : kernels_of(plan_->steps[step])) {
      Launchable& launchable = kernels_.emplace(kernel, Launchable{{}, step, kernels_.size()}).first->second;
      for (const CudaPreference& preference : ways_to_run(*kernel, builder, limits, launchable))
        requests.push_back({kernel, limits, preference, needs_wide_index(*plan_, *kernel, dims_)});
    }
  }
  const std::scoped_lock lock(shared.mutex);
  load_missing(gpu_, requests, builder, shared);
  for (const KernelRequest& request : requests) {
    const std::shared_ptr<const LoadedKernel> code = shared.loaded.at(key_of(request));
    const CudaGrid grid = choose_cuda_grid(*request.lowered, code->schedule(), limits, dims_);
    random_is_drawn_ = random_is_drawn_ || draws_random(*code);
    kernels_.at(request.lowered).ways.push_back({code, grid, print(request.preference)});
  }
}

/// With --tune, what an earlier measurement found; else all that is to be measured.
std::vector<CudaPreference> CudaExecutable::ways_to_run(const LoweredKernel& kernel, KernelBuilder& builder,
                                                        const GpuLimits& limits, Launchable& launchable) const {
  const CudaPreference& wanted = builder.preferences.of(kernel.program.name);
  if (!builder.tune) return {wanted};
  const auto candidates = candidate_preferences(kernel, wanted, limits, dims_);
  if (candidates.size() == 1) return candidates;
  std::vector<std::string> records;
  for (const CudaPreference& candidate : candidates) records.push_back(print(candidate));
  const CudaKernel usual = cuda_kernel(kernel, choose_cuda_schedule(kernel, limits, wanted));
  const std::string key =
      tuning_key(cuda_cache_key(usual.text, builder.compiler, builder.architecture), dims_, gpu_->describe());
  if (const auto tuned = find_tuned(builder.cache, key, records)) return {candidates[tuned->way]};
  launchable.tuning_key = key;
  return candidates;
}

void CudaExecutable::prepare_algebra(const std::shared_ptr<Solver>& solver, KernelBuilder& builder) {
  for (const PlanStep& step : plan_->steps) {
    for (const AlgebraCall* call : algebra_calls_of(step)) algebra_calls_.push_back(call);
  }
  if (algebra_calls_.empty()) return;
  if (!solver || !solver->is_available())
    throw InternalError("the plan of a GPU without a solver leaves " + algebra_calls_.front()->definition.name +
                        " to it");
  algebra_ = std::make_unique<GpuAlgebra>(gpu_, solver, builder);
}

std::vector<CheckedCall> CudaExecutable::checked_calls() const {
  std::vector<CheckedCall> checked;
  for (const AlgebraCall* call : algebra_calls_) {
    checked.push_back({call->definition.name, [plan = plan_, call, dims = dims_](const KernelStatus& status) {
                         const auto& [number, pivot, scan_step, unused] = status.coordinates;
                         const AlgebraShape shape = algebra_shape(*plan, *call, dims, {.step = scan_step});
                         fail_factorisation(*call, shape, number, pivot, status.value);
                       }});
  }
  return checked;
}

/// Of the largest call. Steps of a scan make no difference; of slices the first is the largest.
std::int64_t CudaExecutable::algebra_workspace() const {
  std::size_t bytes = 0;
  for (const AlgebraCall* call : algebra_calls_)
    bytes = std::max(bytes, algebra_->workspace_bytes(*call, algebra_shape(*plan_, *call, dims_, {})));
  return static_cast<std::int64_t>(bytes);
}

void CudaExecutable::place_memory() {
  std::vector<std::int64_t> chunks(plan_->steps.size(), 1);
  std::int64_t workspace = algebra_workspace();
  for (const auto& [lowered, kernel] : kernels_) {
    for (const Way& way : kernel.ways) {
      chunks[kernel.step] = std::max(chunks[kernel.step], way.grid.chunks);
      const std::int64_t blocks = way.grid.tiles * way.grid.chunks;
      const std::int64_t of_block =
          way.code->schedule().workspace.bytes([&](Symbol dim) { return dims_.at(dim.name()); });
      workspace = std::max(workspace, checked_mul(blocks, of_block));
    }
  }
  memory_ = plan_memory(*plan_, dims_, chunks);
  constexpr std::int64_t kAlignment = 256;  // as memory of the driver, which libraries take for their workspace
  const std::int64_t start = ceil_div(memory_.bytes, kAlignment) * kAlignment;
  arena_ = DeviceMemory(gpu_, static_cast<std::size_t>(start + workspace));
  workspace_ = arena_.address() + static_cast<DevicePointer>(start);
}

void CudaExecutable::find_outside() {
  for (const PlanStep& step : plan_->steps) {
    for (const std::string& tensor : tensors_of(step)) {
      if (!memory_.tensors.contains(tensor)) outside_.emplace(tensor, 0);
    }
  }
}

// ---- Runs ----

void CudaExecutable::run(const std::function<void*(const std::string&)>& address, std::uint64_t seed,
                         std::uint64_t step) {
  const Gpu::Turn turn = gpu_->turn();
  std::vector<DevicePointer> places;
  for (auto& [tensor, place] : outside_) {
    place = reinterpret_cast<DevicePointer>(address(tensor));
    places.push_back(place);
  }
  if (random_is_drawn_) {
    const CudaRandomState state{seed, step};
    std::memcpy(random_.write().data(), &state, sizeof state);
    random_.kernel_input();
  }
  if (has_run_ && !algebra_ && gpu_->can_record())
    graphs_.launch(places, [this] { enqueue(); });
  else
    enqueue();
  has_run_ = true;
  gpu_->watch(board_);
}

void CudaExecutable::enqueue() {
  for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
    if (has_run_ && constant_[k]) continue;
    std::visit([this](const auto& part) { enqueue(part, {}); }, plan_->steps[k]);
  }
  board_->report();
}

void CudaExecutable::enqueue(const LoweredScan& scan, const ScanPosition& /*at*/) {
  const std::int64_t rounds = evaluate(scan.extent, dims_);
  for (std::int64_t n = 0; n < rounds; ++n) {
    const ScanPosition at = scan_position(n, rounds, scan.backwards);
    for (const LoweredScanStep& step : scan.steps) std::visit([&](const auto& part) { enqueue(part, at); }, step);
  }
}

void CudaExecutable::enqueue(const LoweredKernel& lowered, const ScanPosition& at) {
  Launchable& kernel = kernels_.at(&lowered);
  if (kernel.ways.size() > 1) tune(kernel, at);
  launch(kernel, kernel.ways.front(), at);
}

void CudaExecutable::launch(const Launchable& kernel, const Way& way, const ScanPosition& at) const {
  if (way.grid.tiles == 0) return;
  std::vector<std::uint64_t> parameters;
  for (const CudaParameter& parameter : way.code->compiled().kernel.parameters)
    parameters.push_back(value_of(kernel, way, parameter, at));
  clear_gaps(kernel, way);
  way.code->launch(way.grid, parameters);
  if (way.grid.chunks > 1 && !way.code->compiled().kernel.combined.empty()) combine(kernel, way, at);
}

/// Partial results lie where other tensors did, and elements that no loop writes are combined all the same.
void CudaExecutable::clear_gaps(const Launchable& kernel, const Way& way) const {
  if (way.grid.chunks == 1) return;
  for (const BufferId buffer : way.code->compiled().kernel.combined) {
    const std::string& tensor = way.code->lowered().uses[buffer].tensor;
    if (!has_gaps(plan_->fused.program, tensor)) continue;
    const auto bytes = static_cast<std::size_t>(memory_.partials[kernel.step].at(tensor).bytes);
    gpu_->check(gpu_->driver().MemsetD8Async(partials_of(kernel, tensor), 0, bytes, gpu_->stream()),
                "clearing partial results");
  }
}

/// A kernel may run any number of times: nothing that it reads lies where it writes, in a scan at no step.
void CudaExecutable::tune(Launchable& kernel, const ScanPosition& at) {
  std::vector<std::string> records;
  for (const Way& way : kernel.ways) records.push_back(way.record);
  Stopwatch stopwatch(gpu_);
  const Way* tried = nullptr;
  const Trial trial{[&](std::size_t way) { tried = &kernel.ways[way]; },
                    [&] {
                      stopwatch.start();
                      launch(kernel, *tried, at);
                      return stopwatch.stop();
                    }};
  const Tuned tuned = measure(cache_, kernel.tuning_key, records, trial);
  std::vector<Way> fastest;
  fastest.push_back(std::move(kernel.ways[tuned.way]));
  kernel.ways = std::move(fastest);
  const LoadedKernel& code = *kernel.ways.front().code;
  log_info(LogChannel::Runtime, "tuned {}: {}; {}", code.lowered().program.name, print(code.schedule()), tuned.reason);
}

void CudaExecutable::combine(const Launchable& kernel, const Way& way, const ScanPosition& at) const {
  std::vector<std::uint64_t> parameters;
  std::int64_t elements = 0;
  const LoweredKernel& lowered = way.code->lowered();
  for (const BufferId buffer : way.code->compiled().kernel.combined) {
    const std::string& tensor = lowered.uses[buffer].tensor;
    const Program& program = plan_->fused.program;
    const std::int64_t count =
        lowered.in_scan ? slice_elements(program, tensor, dims_) : count_elements(program, tensor, dims_);
    parameters.insert(parameters.end(), {partials_of(kernel, tensor), written_at(lowered, tensor, at),
                                         static_cast<std::uint64_t>(count)});
    elements += count;
  }
  parameters.push_back(static_cast<std::uint64_t>(way.grid.chunks));
  way.code->launch_combination(elements, parameters);
}

void CudaExecutable::enqueue(const MatrixProduct& product, const ScanPosition& at) const {
  const MatrixProductCall call{product.definition.dtype,
                               plan_->fused.program.dtype_of(product.left.tensor),
                               product_call(*plan_, product, dims_, at),
                               product.alpha,
                               place_of(product.left.tensor, 0),
                               place_of(product.right.tensor, 0),
                               place_of(product.out.tensor, 0),
                               is_later(product.slices, dims_)};
  multiply_(call, gpu_->stream());
}

void CudaExecutable::enqueue(const AlgebraCall& call, const ScanPosition& at) const {
  const auto number = static_cast<std::size_t>(std::ranges::find(algebra_calls_, &call) - algebra_calls_.begin());
  const std::vector<std::string> operands = operands_of(call);
  algebra_->enqueue(call, algebra_shape(*plan_, call, dims_, at),
                    {.matrix = place_of(operands.front()),
                     .rhs = place_of(operands.back()),
                     .out = place_of(call.definition.name),
                     .workspace = workspace_,
                     .status = board_->status(),
                     .check = board_->check_of_call(number),
                     .scan_step = at.step});
}

void CudaExecutable::enqueue(const OrderedSumCall& call, const ScanPosition& /*at*/) const {
  throw InternalError("the plan of a GPU sorts the keys of " + call.definition.name);
}

void CudaExecutable::enqueue(const LoweredSlices& slices, const ScanPosition& /*at*/) {
  views_ = &slices.slices.views;
  const std::int64_t count = slice_count(slices.slices, dims_);
  if (count == 0) clear_sums(slices.slices);
  for (std::int64_t done = 0; done < count; ++done) {
    set_dims_of_run(slices.slices, done, dims_);
    for (const LoweredSliceStep& step : slices.steps) std::visit([&](const auto& part) { enqueue(part, {}); }, step);
  }
  views_ = nullptr;
}

/// Sums of nothing are 0. Plans for GPUs have no parts of sums that are left to be added up.
void CudaExecutable::clear_sums(const Slices& slices) {
  for (const auto& [name, summed] : slices.sums) {
    const std::string& whole = slices.views.at(name).tensor;
    const auto bytes = static_cast<std::size_t>(count_elements(plan_->fused.program, whole, dims_)) *
                       size_of(plan_->fused.program.dtype_of(whole));
    gpu_->check(gpu_->driver().MemsetD8Async(place_of(whole), 0, bytes, gpu_->stream()), "clearing a sum");
  }
}

// ---- Arguments ----

DevicePointer CudaExecutable::place_of(const std::string& tensor, std::int64_t first) const {
  if (views_) {
    if (const auto view = views_->find(tensor); view != views_->end())
      return place_of(view->second.tensor, first_element(*plan_, view->second, dims_) + first);
  }
  const auto inside = memory_.tensors.find(tensor);
  const DevicePointer start = inside == memory_.tensors.end()
                                  ? outside_.at(tensor)
                                  : arena_.address() + static_cast<DevicePointer>(inside->second.offset);
  return start + static_cast<DevicePointer>(first) * size_of(plan_->fused.program.dtype_of(tensor));
}

DevicePointer CudaExecutable::written_at(const LoweredKernel& kernel, const std::string& tensor,
                                         const ScanPosition& at) const {
  return place_of(tensor, kernel.in_scan ? slice_place(plan_->fused, tensor, dims_, at) : 0);
}

DevicePointer CudaExecutable::partials_of(const Launchable& kernel, const std::string& tensor) const {
  return arena_.address() + static_cast<DevicePointer>(memory_.partials[kernel.step].at(tensor).offset);
}

std::uint64_t CudaExecutable::value_of(const Launchable& kernel, const Way& way, const CudaParameter& parameter,
                                       const ScanPosition& at) const {
  switch (parameter.kind) {
    case CudaParameter::Kind::buffer: {
      const LoweredKernel& lowered = way.code->lowered();
      const BufferUse& use = lowered.uses[parameter.index];
      if (!use.partial) return place_of(use.tensor);
      return way.grid.chunks > 1 ? partials_of(kernel, use.tensor) : written_at(lowered, use.tensor, at);
    }
    case CudaParameter::Kind::argument: {
      const auto of_scan = scan_argument(parameter.name, at);
      return static_cast<std::uint64_t>(of_scan ? *of_scan : evaluate(Affine(Symbol::dim(parameter.name)), dims_));
    }
    case CudaParameter::Kind::workspace:
      return workspace_;
    case CudaParameter::Kind::random:
      return random_.address();
    case CudaParameter::Kind::status:
      return board_->status();
    case CudaParameter::Kind::first_check:
      return board_->first_check_of(kernel.number);
  }
  throw InternalError("a kernel has a parameter of an unknown kind");
}

}  // namespace moxie::cuda
