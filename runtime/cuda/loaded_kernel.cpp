#include "runtime/cuda/loaded_kernel.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/support/error.h"

namespace moxie::cuda {
namespace {

// From cuda.h.
constexpr int kMaxThreadsPerBlock = 0;
constexpr int kSharedBytes = 1;
constexpr int kRegisters = 4;
constexpr Result kLoadOutOfMemory = 2;

}  // namespace

LoadedKernel::LoadedKernel(std::shared_ptr<Gpu> gpu, CompiledKernel compiled)
    : gpu_(std::move(gpu)), compiled_(std::move(compiled)) {
  const Driver& driver = gpu_->driver();
  if (const Result error = driver.ModuleLoadData(&module_, compiled_.code.object.data()); error != 0) {
    const std::string what =
        fmt::format("loading kernel {}, compiled by {},", lowered().program.name, compiled_.compiler);
    if (error == kLoadOutOfMemory) gpu_->fail(error, what);
    throw RefusedCode(gpu_->message(error, what));
  }
  try {
    function_ = find(compiled_.kernel.entry);
    if (!compiled_.kernel.combine_entry.empty()) combine_ = find(compiled_.kernel.combine_entry);
    check_block();
  } catch (...) {
    driver.ModuleUnload(module_);
    throw;
  }
}

LoadedKernel::~LoadedKernel() {
  if (module_ != nullptr) gpu_->driver().ModuleUnload(module_);
}

LoadedKernel::LoadedKernel(LoadedKernel&& other) noexcept
    : gpu_(std::move(other.gpu_)),
      compiled_(std::move(other.compiled_)),
      module_(std::exchange(other.module_, nullptr)),
      function_(other.function_),
      combine_(other.combine_) {}

Function LoadedKernel::find(const std::string& entry) const {
  Function function = nullptr;
  if (const Result error = gpu_->driver().ModuleGetFunction(&function, module_, entry.c_str()); error != 0)
    throw RefusedCode(
        gpu_->message(error, fmt::format("looking for the function {} of kernel {}", entry, lowered().program.name)));
  return function;
}

int LoadedKernel::attribute(Function function, int number) const {
  int value = 0;
  gpu_->check(gpu_->driver().FuncGetAttribute(&value, number, function), "asking for a kernel's limits");
  return value;
}

void LoadedKernel::check_block() const {
  const int wanted = schedule().lanes * schedule().rows;
  const int most = attribute(function_, kMaxThreadsPerBlock);
  if (wanted <= most) return;
  throw DeviceError(
      fmt::format("kernel {} wants blocks of {} threads, but with its {} registers each {} fit on {}, {}; "
                  "override its schedule with fewer rows.\n{}",
                  lowered().program.name, wanted, attribute(function_, kRegisters), most, gpu_->name(),
                  gpu_->describe(), formulas()));
}

void LoadedKernel::launch(const CudaGrid& grid, std::span<std::uint64_t> parameters) const {
  launch(function_, {grid.tiles, grid.chunks, schedule().lanes, schedule().rows}, parameters);
}

void LoadedKernel::launch_combination(std::int64_t elements, std::span<std::uint64_t> parameters) const {
  if (elements == 0) return;
  launch(combine_, {ceil_div(elements, kWarp), 1, kWarp, kCombineRows}, parameters);
}

void LoadedKernel::launch(Function function, const Shape& shape, std::span<std::uint64_t> parameters) const {
  std::vector<void*> addresses;
  for (std::uint64_t& parameter : parameters) addresses.push_back(&parameter);
  const Result error =
      gpu_->driver().LaunchKernel(function, static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y), 1,
                                  static_cast<unsigned>(shape.block_x), static_cast<unsigned>(shape.block_y), 1, 0,
                                  gpu_->stream(), addresses.data(), nullptr);
  if (error != 0) gpu_->fail(error, describe(function, shape), formulas());
}

std::string LoadedKernel::describe(Function function, const Shape& shape) const {
  return fmt::format("launching kernel {} ({} x {} blocks of {} x {} threads, {} registers, {} bytes of shared memory)",
                     lowered().program.name, shape.grid_x, shape.grid_y, shape.block_x, shape.block_y,
                     attribute(function, kRegisters), attribute(function, kSharedBytes));
}

std::string LoadedKernel::formulas() const {
  std::string text = "It computes";
  for (const std::string& comment : lowered().program.comments) text += "\n  " + comment;
  return text;
}

}  // namespace moxie::cuda
