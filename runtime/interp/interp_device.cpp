#include "runtime/interp/interp_device.h"

#include <algorithm>

#include "compiler/expression/algebra_form.h"
#include "compiler/loop/interpreter.h"
#include "compiler/reference/dense.h"
#include "compiler/reference/sorting.h"
#include "compiler/support/error.h"
#include "runtime/algebra_call.h"
#include "runtime/launch.h"
#include "runtime/ordered_sum_shape.h"
#include "runtime/product_call.h"

namespace moxie {
namespace {

struct RandomState {
  std::uint64_t seed, step;
};

class InterpExecutable : public Executable {
 public:
  InterpExecutable(std::shared_ptr<const Plan> plan, DimValues dims)
      : plan_(std::move(plan)), dims_(with_slice_dims(*plan_, std::move(dims))) {
    for (const PlanStep& step : plan_->steps) {
      for (const std::string& name : tensors_of(step)) allocate(name);
    }
  }

  void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) override {
    for (const InputDecl& input : plan_->program.inputs) {
      if (const auto it = tensors_.find(input.name); it != tensors_.end())
        load_elements(input.dtype, address(input.name), it->second);
    }
    const RandomState random{seed, step};
    for (const PlanStep& plan_step : plan_->steps) {
      std::visit([&](const auto& part) { run_step(part, {}, random); }, plan_step);
    }
    for (const Definition& definition : plan_->fused.program.definitions) {
      if (definition.output) store_elements(definition.dtype, tensors_.at(definition.name), address(definition.name));
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

  void run_step(const LoweredScan& scan, const ScanPosition& /*at*/, const RandomState& random) {
    const std::int64_t rounds = evaluate(scan.extent, dims_);
    for (std::int64_t n = 0; n < rounds; ++n) {
      const ScanPosition at = scan_position(n, rounds, scan.backwards);
      for (const LoweredScanStep& step : scan.steps) {
        std::visit([&](const auto& part) { run_step(part, at, random); }, step);
      }
    }
  }

  void run_step(const LoweredSlices& slices, const ScanPosition& /*at*/, const RandomState& random) {
    views_ = &slices.slices.views;
    const std::int64_t count = slice_count(slices.slices, dims_);
    for (std::int64_t done = 0; done < count; ++done) {
      set_dims_of_run(slices.slices, done, dims_);
      for (const LoweredSliceStep& step : slices.steps)
        std::visit([&](const auto& part) { run_step(part, {}, random); }, step);
    }
    views_ = nullptr;
  }

  /// The elements of a tensor, or of the part of one that belongs to the slice.
  std::span<double> elements_of(const std::string& name) {
    const auto view = views_ ? views_->find(name) : std::map<std::string, SliceView>::const_iterator();
    if (!views_ || view == views_->end()) return tensors_.at(name);
    return std::span<double>(tensors_.at(view->second.tensor))
        .subspan(static_cast<std::size_t>(first_element(*plan_, view->second, dims_)));
  }

  void run_step(const LoweredKernel& kernel, const ScanPosition& at, const RandomState& random) {
    std::vector<std::span<double>> buffers;
    for (const BufferUse& use : kernel.uses) {
      const std::span<double> all =
          elements_of(use.tensor)
              .first(static_cast<std::size_t>(count_elements(plan_->fused.program, use.tensor, dims_)));
      buffers.push_back(use.partial && kernel.in_scan ? slice(all, use.tensor, at) : all);
    }
    Launch launch;
    launch.at = at;
    const auto arguments = launch_arguments(kernel, dims_, launch, 1, random.seed, random.step);
    throw_if_failed(kernel, interpret(kernel.program, buffers, arguments));
  }

  std::span<double> slice(std::span<double> all, const std::string& tensor, const ScanPosition& at) const {
    const Program& program = plan_->fused.program;
    return all.subspan(static_cast<std::size_t>(slice_place(plan_->fused, tensor, dims_, at)),
                       static_cast<std::size_t>(slice_elements(program, tensor, dims_)));
  }

  void run_step(const MatrixProduct& product, const ScanPosition& at, const RandomState& /*random*/) {
    const ProductCall call = product_call(*plan_, product, dims_, at);
    for (std::int64_t number = 0; number < batch_count(call); ++number)
      multiply(product, call, offset_of(call, number));
  }

  void multiply(const MatrixProduct& product, const ProductCall& call, const ProductOffset& offset) {
    const auto left = elements_of(product.left.tensor);
    const auto right = elements_of(product.right.tensor);
    const auto out = elements_of(product.out.tensor);
    const auto place = [](const ProductMatrix& matrix, std::int64_t first, std::int64_t row, std::int64_t column) {
      return static_cast<std::size_t>(matrix.first + first + row * matrix.row_stride + column * matrix.column_stride);
    };
    for (std::int64_t i = 0; i < call.rows; ++i) {
      const Stretch depth = call.band && !call.masked ? part_of_row(*call.band, i) : Stretch{0, call.depth};
      for (std::int64_t j = 0; j < call.columns; ++j) {
        double sum = 0;
        for (std::int64_t k = depth.first; k < depth.end; ++k)
          sum += left[place(call.left, offset.left, i, k)] * right[place(call.right, offset.right, k, j)];
        out[place(call.out, offset.out, i, j)] = product.alpha * sum;
      }
    }
  }

  void run_step(const AlgebraCall& call, const ScanPosition& at, const RandomState& /*random*/) {
    const AlgebraShape shape = algebra_shape(*plan_, call, dims_, at);
    for (std::int64_t number = 0; number < batch_count(shape); ++number) {
      if (sorts_row(call.definition.body->algebra)) {
        sort(call, shape, number);
        continue;
      }
      for (std::int64_t column = 0; column < shape.columns; ++column) compute(call, shape, number, column);
    }
  }

  void sort(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number) {
    const AlgebraElement element = element_of(shape, number);
    const auto operand = elements_of(operands_of(call).front());
    std::vector<double> row;
    for (std::int64_t k = 0; k < shape.rows; ++k)
      row.push_back(operand[static_cast<std::size_t>(element.matrix + k * shape.matrix.row_stride)]);
    const std::vector<double> sorted = sort_row(call.definition.body->algebra, row);
    const auto out = elements_of(call.definition.name);
    for (std::int64_t k = 0; k < shape.out_rows; ++k)
      out[static_cast<std::size_t>(element.out + k * shape.out.row_stride)] = sorted[static_cast<std::size_t>(k)];
  }

  void compute(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, std::int64_t column) {
    const AlgebraElement element = element_of(shape, number);
    const std::vector<std::string> operands = operands_of(call);
    const auto value = [&](const std::string& tensor, std::int64_t at) -> double& {
      return elements_of(tensor)[static_cast<std::size_t>(at)];
    };
    const LinearAlgebraKind kind = call.definition.body->algebra;
    const auto rows = static_cast<std::size_t>(shape.rows);
    const auto matrix_columns = static_cast<std::size_t>(shape.matrix_columns);
    DenseMatrix matrix(rows, matrix_columns);
    std::vector<double> rhs;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const std::size_t read = reads_whole_matrix(kind) ? matrix.columns : i + 1;
      for (std::size_t j = 0; j < read; ++j)
        matrix(i, j) = value(operands[0], element.matrix + row * shape.matrix.row_stride +
                                              static_cast<std::int64_t>(j) * shape.matrix.column_stride);
      if (operands.size() > 1)
        rhs.push_back(value(operands[1], element.rhs + row * shape.rhs.row_stride + column * shape.rhs.column_stride));
    }
    std::optional<BadPivot> bad;
    const std::vector<double> result = apply(kind, std::move(matrix), std::move(rhs), bad);
    if (bad) fail_factorisation(call, shape, number, static_cast<std::int64_t>(bad->row), bad->value);
    const std::size_t columns = algebra_form(kind).elements == 2 ? matrix_columns : 1;
    for (std::size_t k = 0; k < result.size(); ++k) {
      const auto row = static_cast<std::int64_t>(k / columns);
      const std::int64_t out_column = columns == 1 ? column : static_cast<std::int64_t>(k % columns);
      value(call.definition.name, element.out + row * shape.out.row_stride + out_column * shape.out.column_stride) =
          result[k];
    }
  }

  /// Term by term, as the formula says: what faster devices are compared with.
  void run_step(const OrderedSumCall& call, const ScanPosition& /*at*/, const RandomState& /*random*/) {
    const OrderedSumShape shape = ordered_sum_shape(*plan_, call, dims_);
    const auto out = elements_of(call.definition.name);
    for (std::int64_t row = 0; row < count_of(shape.rows); ++row) {
      for (std::int64_t query = 0; query < count_of(shape.queries); ++query) {
        for (std::int64_t sum = 0; sum < count_of(shape.sums); ++sum) {
          const OrderedPlace at =
              shape.first + place_in(shape.rows, row) + place_in(shape.queries, query) + place_in(shape.sums, sum);
          const double value = ordered_sum_at(call, shape, at);
          out[static_cast<std::size_t>(at.out)] = stored_value(call.definition.dtype, value);
        }
      }
    }
  }

  double ordered_sum_at(const OrderedSumCall& call, const OrderedSumShape& shape, const OrderedPlace& at) {
    const auto value = [&](const OrderedOperand& operand, std::int64_t place) {
      return operand.tensor.empty() ? 1 : elements_of(operand.tensor)[static_cast<std::size_t>(place)];
    };
    const double query = value(call.query, at.query), scale = value(call.scale, at.scale);
    double sum = 0;
    for (std::int64_t k = 0; k < shape.keys; ++k) {
      const double key = value(call.key, at.key + k * shape.element.key);
      const double weight = value(call.weight, at.weight + k * shape.element.weight);
      const bool ties =
          call.selection.tie_limit ? (k < at.limit) == call.selection.tie_below : call.selection.with_equal;
      const bool selected = (call.selection.above ? key > query : key < query) || (ties && key == query);
      if (selected)
        sum += call.coefficient * weight * scale;
      else
        sum += 0 * (call.weight.multiplies_zeros ? weight : 1) * (call.scale.multiplies_zeros ? scale : 1);
    }
    return call.most ? std::min(sum, static_cast<double>(*call.most)) : sum;
  }

  std::shared_ptr<const Plan> plan_;
  DimValues dims_;
  std::map<std::string, std::vector<double>> tensors_;
  const std::map<std::string, SliceView>* views_ = nullptr;  // of the slices that run
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
