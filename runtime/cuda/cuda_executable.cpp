#include "runtime/cuda/cuda_executable.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/support/error.h"

namespace moxie::cuda {
namespace {

std::int64_t count_elements(const Program& program, const std::string& tensor, const DimValues& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents_of(program, tensor, dims)) count = checked_mul(count, extent);
  return count;
}

/// Whether 32-bit subscripts do not reach all elements.
bool needs_wide_index(const Plan& plan, const LoweredKernel& kernel, const DimValues& dims) {
  return std::ranges::any_of(kernel.uses, [&](const BufferUse& use) {
    return count_elements(plan.fused.program, use.tensor, dims) > std::numeric_limits<std::int32_t>::max();
  });
}

bool draws_random(const LoadedKernel& code) {
  const auto& parameters = code.compiled().kernel.parameters;
  return std::ranges::find(parameters, CudaParameter::Kind::random, &CudaParameter::kind) != parameters.end();
}

std::vector<const LoweredKernel*> all_kernels(const Plan& plan) {
  std::vector<const LoweredKernel*> kernels;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel& kernel : kernels_of(step)) kernels.push_back(&kernel);
  }
  return kernels;
}

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Gpu> gpu, KernelBuilder& builder, const Multiply& multiply,
                               std::shared_ptr<const Plan> plan, DimValues dims)
    : gpu_(std::move(gpu)),
      multiply_(multiply),
      plan_(std::move(plan)),
      dims_(std::move(dims)),
      random_(gpu_),
      graphs_(gpu_) {
  GpuLimits limits;
  limits.multiprocessors = gpu_->multiprocessors();
  load_kernels(builder, limits);
  place_memory();
  find_outside();
  if (random_is_drawn_) random_.resize(sizeof(CudaRandomState));
  board_ = std::make_shared<StatusBoard>(gpu_, plan_->program.name, all_kernels(*plan_));
}

CudaExecutable::~CudaExecutable() { gpu_->settle(); }

void CudaExecutable::load_kernels(KernelBuilder& builder, const GpuLimits& limits) {
  std::vector<KernelRequest> requests;
  for (const LoweredKernel* kernel : all_kernels(*plan_))
    requests.push_back({kernel, limits, needs_wide_index(*plan_, *kernel, dims_)});
  auto compiled = compile_kernels(requests, builder);
  kernels_.resize(plan_->steps.size());
  std::size_t number = 0;
  for (std::size_t step = 0; step < plan_->steps.size(); ++step) {
    for (const LoweredKernel& kernel : kernels_of(plan_->steps[step])) {
      const CudaGrid grid = choose_cuda_grid(kernel, compiled[number].schedule, limits, dims_);
      kernels_[step].push_back({LoadedKernel(gpu_, std::move(compiled[number])), grid, step, number});
      random_is_drawn_ = random_is_drawn_ || draws_random(kernels_[step].back().code);
      ++number;
    }
  }
}

void CudaExecutable::place_memory() {
  std::vector<std::int64_t> chunks(plan_->steps.size(), 1);
  std::int64_t workspace = 0;
  for (const std::vector<Launchable>& step : kernels_) {
    for (const Launchable& kernel : step) {
      chunks[kernel.step] = std::max(chunks[kernel.step], kernel.grid.chunks);
      const std::int64_t blocks = kernel.grid.tiles * kernel.grid.chunks;
      workspace = std::max(workspace, checked_mul(blocks, kernel.code.schedule().workspace_bytes_per_block));
    }
  }
  memory_ = plan_memory(*plan_, dims_, chunks);
  arena_ = DeviceMemory(gpu_, static_cast<std::size_t>(memory_.bytes + workspace));
  workspace_ = arena_.address() + static_cast<DevicePointer>(memory_.bytes);
}

void CudaExecutable::find_outside() {
  const auto note = [&](const std::string& tensor) {
    if (!memory_.tensors.contains(tensor)) outside_.emplace(tensor, 0);
  };
  for (const PlanStep& step : plan_->steps) {
    for (const LoweredKernel& kernel : kernels_of(step)) {
      for (const BufferUse& use : kernel.uses) note(use.tensor);
    }
    const auto* product = std::get_if<MatrixProduct>(&step);
    if (!product) continue;
    for (const std::string& tensor : {product->left, product->right, product->definition.name}) note(tensor);
  }
}

// ---- Runs ----

void CudaExecutable::run(const std::function<void*(const std::string&)>& address, std::uint64_t seed,
                         std::uint64_t step) {
  gpu_->enter();
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
  if (has_run_)
    graphs_.launch(places, [this] { enqueue(); });
  else
    enqueue();
  has_run_ = true;
  gpu_->watch(board_);
}

void CudaExecutable::enqueue() {
  for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
    if (const auto* product = std::get_if<MatrixProduct>(&plan_->steps[k])) multiply(*product);
    const auto* scan = std::get_if<LoweredScan>(&plan_->steps[k]);
    const std::int64_t rounds = scan ? evaluate(scan->extent, dims_) : 1;
    for (std::int64_t n = 0; n < rounds; ++n) {
      for (const Launchable& kernel : kernels_[k]) enqueue(kernel, scan && scan->backwards ? rounds - 1 - n : n);
    }
  }
  board_->report();
}

void CudaExecutable::enqueue(const Launchable& kernel, std::int64_t scan_step) const {
  if (kernel.grid.tiles == 0) return;
  std::vector<std::uint64_t> parameters;
  for (const CudaParameter& parameter : kernel.code.compiled().kernel.parameters)
    parameters.push_back(value_of(kernel, parameter, scan_step));
  kernel.code.launch(kernel.grid, parameters);
  if (kernel.grid.chunks > 1 && !kernel.code.compiled().kernel.combined.empty()) combine(kernel);
}

void CudaExecutable::combine(const Launchable& kernel) const {
  std::vector<std::uint64_t> parameters;
  std::int64_t elements = 0;
  for (const BufferId buffer : kernel.code.compiled().kernel.combined) {
    const std::string& tensor = kernel.code.lowered().uses[buffer].tensor;
    const std::int64_t count = element_count(tensor);
    parameters.insert(parameters.end(),
                      {partials_of(kernel, tensor), place_of(tensor), static_cast<std::uint64_t>(count)});
    elements += count;
  }
  parameters.push_back(static_cast<std::uint64_t>(kernel.grid.chunks));
  kernel.code.launch_combination(elements, parameters);
}

void CudaExecutable::multiply(const MatrixProduct& product) const {
  MatrixProductCall call;
  call.dtype = product.definition.dtype;
  call.left_transposed = product.left_transposed != lies_transposed(*plan_, product.left);
  call.right_transposed = product.right_transposed != lies_transposed(*plan_, product.right);
  call.rows = evaluate(product.rows, dims_);
  call.columns = evaluate(product.columns, dims_);
  call.depth = evaluate(product.depth, dims_);
  call.alpha = product.alpha;
  call.left = place_of(product.left);
  call.right = place_of(product.right);
  call.out = place_of(product.definition.name);
  multiply_(call, gpu_->stream());
}

// ---- Arguments ----

DevicePointer CudaExecutable::place_of(const std::string& tensor) const {
  const auto inside = memory_.tensors.find(tensor);
  if (inside == memory_.tensors.end()) return outside_.at(tensor);
  return arena_.address() + static_cast<DevicePointer>(inside->second.offset);
}

DevicePointer CudaExecutable::partials_of(const Launchable& kernel, const std::string& tensor) const {
  return arena_.address() + static_cast<DevicePointer>(memory_.partials[kernel.step].at(tensor).offset);
}

std::int64_t CudaExecutable::element_count(const std::string& tensor) const {
  return count_elements(plan_->fused.program, tensor, dims_);
}

std::uint64_t CudaExecutable::value_of(const Launchable& kernel, const CudaParameter& parameter,
                                       std::int64_t scan_step) const {
  switch (parameter.kind) {
    case CudaParameter::Kind::buffer: {
      const BufferUse& use = kernel.code.lowered().uses[parameter.index];
      return use.partial && kernel.grid.chunks > 1 ? partials_of(kernel, use.tensor) : place_of(use.tensor);
    }
    case CudaParameter::Kind::argument:
      return static_cast<std::uint64_t>(parameter.name == kScanStep ? scan_step : dims_.at(parameter.name));
    case CudaParameter::Kind::workspace:
      return workspace_;
    case CudaParameter::Kind::random:
      return random_.address();
    case CudaParameter::Kind::status:
      return board_->status_of(kernel.number);
  }
  throw InternalError("a kernel has a parameter of an unknown kind");
}

}  // namespace moxie::cuda
