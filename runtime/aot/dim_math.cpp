#include "runtime/aot/dim_math.h"

#include "runtime/host_tensor.h"

namespace moxie::aot {

Val rounded_up(FunctionWriter& w, const Val& bytes, std::int64_t alignment) {
  return w.ir().binary("and", w.saturating_add(bytes, w.integer(alignment - 1)), w.integer(-alignment));
}

Val DimMath::value(const Affine& affine) {
  Val sum = w_.integer(affine.constant());
  for (const auto& [symbol, coefficient] : affine.terms()) {
    const Val& dim = values_.at(symbol.name());
    sum = w_.add(sum, coefficient == 1 ? dim : w_.mul(dim, w_.integer(coefficient)));
  }
  return sum;
}

Val DimMath::extent(const Affine& size) {
  return size.is_constant() ? w_.integer(std::max<std::int64_t>(size.constant(), 0))
                            : w_.larger(value(size), w_.integer(0));
}

Val DimMath::count(const std::vector<Affine>& shape) {
  Val product = w_.integer(1);
  for (const Affine& size : shape) product = w_.saturating_mul(product, extent(size));
  return product;
}

Val DimMath::bytes(const std::string& tensor) {
  const auto element = static_cast<std::int64_t>(size_of(program_.dtype_of(tensor)));
  return w_.saturating_mul(count(program_.shape_of(tensor)), w_.integer(element));
}

Val DimMath::bytes(const ScratchSize& scratch) {
  Val sum = w_.integer(scratch.fixed_bytes);
  for (const ScratchBlock& block : scratch.blocks) {
    const Val bytes = w_.saturating_mul(count(block.extents), w_.integer(block.element_bytes));
    sum = w_.saturating_add(sum, rounded_up(w_, bytes, ScratchSize::kBlockAlignment));
  }
  return sum;
}

Val DimMath::slice_count(const std::string& tensor) {
  std::vector<Affine> shape = program_.shape_of(tensor);
  shape.erase(shape.begin());
  return count(shape);
}

Val DimMath::slice_bytes(const std::string& tensor) {
  const auto element = static_cast<std::int64_t>(size_of(program_.dtype_of(tensor)));
  return w_.saturating_mul(slice_count(tensor), w_.integer(element));
}

Val DimMath::rounds(const Range& range) {
  Val end = w_.add(value(range.highs.front().value), w_.integer(1));
  for (const Bound& bound : range.highs)
    end = w_.smaller(end, w_.add(w_.floor_div(value(bound.value), bound.divisor), w_.integer(1)));
  return w_.larger(end, w_.integer(0));
}

Val DimMath::chunks(const SplitLoop& rows) {
  const Val wanted = w_.divide(rounds(rows), w_.integer(rows.least_rows));
  return w_.smaller(w_.larger(wanted, w_.integer(1)), w_.integer(rows.most_pieces));
}

Val DimMath::boundary(const SplitLoop& loop, const Val& rounds, const Val& index, const Val& count, int lanes) {
  const int unit = loop.over_lanes ? lanes : 1;
  const Val units = w_.divide(w_.add(rounds, w_.integer(unit - 1)), w_.integer(unit));
  const Val first = w_.mul(w_.divide(w_.mul(units, index), count), w_.integer(unit));
  return w_.smaller(first, rounds);
}

}  // namespace moxie::aot
