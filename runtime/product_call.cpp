#include "runtime/product_call.h"

#include <algorithm>
#include <numeric>

#include "runtime/plan.h"

namespace moxie {
namespace {

std::int64_t elements_of(const std::vector<Affine>& extents, const DimValues& dims) {
  std::int64_t product = 1;
  for (const Affine& extent : extents)
    product = checked_mul(product, std::max<std::int64_t>(evaluate(extent, dims), 0));
  return product;
}

ProductMatrix matrix_of(const ProductOperand& operand, const std::vector<std::int64_t>& strides,
                        const DimValues& dims) {
  const std::int64_t first = operand.step ? checked_mul(evaluate(*operand.step, dims), strides.front()) : 0;
  return {first, strides[operand.rows.back()], strides[operand.columns.back()]};
}

std::int64_t batch_stride(const ProductOperand& operand, const std::vector<std::int64_t>& strides, std::size_t k) {
  return operand.batch[k] ? strides[*operand.batch[k]] : 0;
}

/// Whether the end of the inner loop is the next step of the outer one, in all tensors.
bool are_one(const ProductBatch& outer, const ProductBatch& inner) {
  return outer.left == inner.left * inner.count && outer.right == inner.right * inner.count &&
         outer.out == inner.out * inner.count;
}

void append(std::vector<ProductBatch>& batch, const ProductBatch& inner) {
  if (inner.count == 1) return;
  if (batch.empty() || !are_one(batch.back(), inner)) {
    batch.push_back(inner);
    return;
  }
  const std::int64_t count = checked_mul(batch.back().count, inner.count);
  batch.back() = {count, inner.left, inner.right, inner.out};
}

/// Ends that move and ends that do not are those of two ranges.
RowBand band_of(const Range& range, std::int64_t extent, DimValues dims) {
  constexpr std::int64_t kNever = std::int64_t{1} << 60;
  dims[kProductRow] = 0;
  const Symbol row = Symbol::dim(kProductRow);
  RowBand band{{0, extent}, {-kNever, kNever}};
  for (const Bound& low : range.lows) {
    std::int64_t& first = (low.value.mentions(row) ? band.moving : band.fixed).first;
    first = std::max(first, evaluate(low.value, dims));
  }
  for (const Bound& high : range.highs) {
    std::int64_t& end = (high.value.mentions(row) ? band.moving : band.fixed).end;
    end = std::min(end, evaluate(high.value, dims) + 1);
  }
  return band;
}

}  // namespace

std::vector<std::int64_t> strides_of(const Plan& plan, const std::string& tensor, const DimValues& dims) {
  const std::vector<std::int64_t> extents = extents_of(plan.fused.program, tensor, dims);
  std::vector<std::uint32_t> layout(extents.size());
  std::iota(layout.begin(), layout.end(), 0);
  if (const auto it = plan.fused.layouts.find(tensor); it != plan.fused.layouts.end()) layout = it->second;
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (auto axis = layout.rbegin(); axis != layout.rend(); ++axis) {
    strides[*axis] = stride;
    stride = checked_mul(stride, extents[*axis]);
  }
  return strides;
}

bool is_transposed(const ProductMatrix& matrix) { return matrix.column_stride != 1; }

std::int64_t leading_dimension(const ProductMatrix& matrix, std::int64_t rows, std::int64_t columns) {
  return is_transposed(matrix) ? std::max({matrix.column_stride, rows, std::int64_t{1}})
                               : std::max({matrix.row_stride, columns, std::int64_t{1}});
}

ProductCall product_call(const Plan& plan, const MatrixProduct& product, const DimValues& dims,
                         const ScanPosition& at) {
  DimValues at_step = dims;
  at_step[kScanStep] = at.step;
  for (const ProductOperand* operand : {&product.left, &product.right, &product.out}) {
    const auto symbol = operand->step ? operand->step->as_symbol() : std::nullopt;
    const auto folded = symbol && symbol->is_dim() ? folded_step(symbol->name()) : std::nullopt;
    if (folded) at_step[symbol->name()] = folded->place(at);
  }
  const auto left = strides_of(plan, product.left.tensor, dims);
  const auto right = strides_of(plan, product.right.tensor, dims);
  const auto out = strides_of(plan, product.out.tensor, dims);
  ProductCall call{elements_of(product.rows, dims),          elements_of(product.columns, dims),
                   elements_of(product.depth, dims),         matrix_of(product.left, left, at_step),
                   matrix_of(product.right, right, at_step), matrix_of(product.out, out, at_step)};
  for (std::size_t k = 0; k < product.batch.size(); ++k) {
    append(call.batch,
           {std::max<std::int64_t>(evaluate(product.batch[k], dims), 0), batch_stride(product.left, left, k),
            batch_stride(product.right, right, k), batch_stride(product.out, out, k)});
  }
  if (product.band) call.band = band_of(*product.band, call.depth, dims);
  call.masked = product.masked;
  if (product.needed) call.needed = band_of(*product.needed, call.columns, dims);
  return call;
}

Stretch part_of_row(const RowBand& band, std::int64_t row) {
  const auto& [fixed, moving] = band;
  const std::int64_t first = std::max(fixed.first, row + moving.first);
  return {first, std::max(first, std::min(fixed.end, row + moving.end))};
}

ProductCall single_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool left_transposed,
                           bool right_transposed) {
  const auto matrix = [](bool transposed, std::int64_t height, std::int64_t width) {
    return transposed ? ProductMatrix{0, 1, height} : ProductMatrix{0, width, 1};
  };
  return {rows,
          columns,
          depth,
          matrix(left_transposed, rows, depth),
          matrix(right_transposed, depth, columns),
          matrix(false, rows, columns)};
}

std::int64_t batch_count(const ProductCall& call) {
  std::int64_t count = 1;
  for (const ProductBatch& loop : call.batch) count = checked_mul(count, loop.count);
  return count;
}

ProductOffset offset_of(const ProductCall& call, std::int64_t number) {
  ProductOffset offset;
  for (auto loop = call.batch.rbegin(); loop != call.batch.rend(); ++loop) {
    const std::int64_t step = number % loop->count;
    number /= loop->count;
    offset.left += step * loop->left;
    offset.right += step * loop->right;
    offset.out += step * loop->out;
  }
  return offset;
}

}  // namespace moxie
