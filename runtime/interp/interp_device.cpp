#include "runtime/interp/interp_device.h"

#include <algorithm>

#include "compiler/loop/interpreter.h"
#include "runtime/launch.h"

namespace moxie {
namespace {

class InterpExecutable : public Executable {
 public:
  InterpExecutable(std::shared_ptr<const Plan> plan, DimValues dims) : plan_(std::move(plan)), dims_(std::move(dims)) {
    for (const PlanStep& step : plan_->steps) {
      for (const LoweredKernel& kernel : kernels_of(step)) {
        for (const BufferUse& use : kernel.uses) allocate(use.tensor);
      }
      if (const auto* product = std::get_if<MatrixProduct>(&step)) {
        for (const std::string& name : {product->left, product->right, product->definition.name}) allocate(name);
      }
    }
  }

  void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) override {
    for (const InputDecl& input : plan_->program.inputs) {
      if (const auto it = tensors_.find(input.name); it != tensors_.end()) load(input.dtype, address(input.name), it->second);
    }
    for (const PlanStep& plan_step : plan_->steps) {
      if (const auto* product = std::get_if<MatrixProduct>(&plan_step)) multiply(*product);
      else if (const auto* scan = std::get_if<LoweredScan>(&plan_step)) run_scan(*scan, seed, step);
      else run_kernel(std::get<LoweredKernel>(plan_step), 0, seed, step);
    }
    for (const Definition& definition : plan_->fused.program.definitions) {
      if (definition.output) store(definition.dtype, tensors_.at(definition.name), address(definition.name));
    }
  }

  std::int64_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& [name, values] : tensors_) bytes += values.size() * sizeof(double);
    return static_cast<std::int64_t>(bytes);
  }

 private:
  void allocate(const std::string& name) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_of(plan_->fused.program, name, dims_)) count *= extent;
    tensors_[name].resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  }

  static void load(DType dtype, const void* from, std::vector<double>& to) {
    if (dtype == DType::f32) std::copy_n(static_cast<const float*>(from), to.size(), to.begin());
    else std::copy_n(static_cast<const double*>(from), to.size(), to.begin());
  }

  static void store(DType dtype, const std::vector<double>& from, void* to) {
    if (dtype == DType::f32) std::ranges::transform(from, static_cast<float*>(to), [](double v) { return static_cast<float>(v); });
    else std::ranges::copy(from, static_cast<double*>(to));
  }

  void run_scan(const LoweredScan& scan, std::uint64_t seed, std::uint64_t step) {
    const std::int64_t steps = evaluate(scan.extent, dims_);
    for (std::int64_t n = 0; n < steps; ++n) {
      for (const LoweredKernel& kernel : scan.kernels) run_kernel(kernel, scan.backwards ? steps - 1 - n : n, seed, step);
    }
  }

  void run_kernel(const LoweredKernel& kernel, std::int64_t scan_step, std::uint64_t seed, std::uint64_t step) {
    std::vector<std::span<double>> buffers;
    for (const BufferUse& use : kernel.uses) buffers.emplace_back(tensors_.at(use.tensor));
    Launch launch;
    launch.scan_step = scan_step;
    const auto arguments = launch_arguments(kernel, dims_, launch, 1, seed, step);
    throw_if_failed(kernel, interpret(kernel.program, buffers, arguments));
  }

  void multiply(const MatrixProduct& product) {
    const std::int64_t rows = evaluate(product.rows, dims_);
    const std::int64_t columns = evaluate(product.columns, dims_);
    const std::int64_t depth = evaluate(product.depth, dims_);
    const auto& left = tensors_.at(product.left);
    const auto& right = tensors_.at(product.right);
    auto& out = tensors_.at(product.definition.name);
    const bool left_transposed = product.left_transposed != lies_transposed(*plan_, product.left);
    const bool right_transposed = product.right_transposed != lies_transposed(*plan_, product.right);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const std::int64_t l = left_transposed ? k * rows + i : i * depth + k;
          const std::int64_t r = right_transposed ? j * depth + k : k * columns + j;
          sum += left[static_cast<std::size_t>(l)] * right[static_cast<std::size_t>(r)];
        }
        out[static_cast<std::size_t>(i * columns + j)] = product.alpha * sum;
      }
    }
  }

  std::shared_ptr<const Plan> plan_;
  DimValues dims_;
  std::map<std::string, std::vector<double>> tensors_;
};

class InterpDevice : public Device {
 public:
  std::string name() const override { return "interp"; }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    return std::make_unique<InterpExecutable>(std::move(plan), dims);
  }
};

}  // namespace

std::shared_ptr<Device> make_interp_device() { return std::make_shared<InterpDevice>(); }

}  // namespace moxie
