#include "runtime/access_strides.h"

#include "runtime/plan.h"
#include "runtime/product_call.h"

namespace moxie {

AccessStrides::AccessStrides(const Plan& plan, const std::string& tensor, std::vector<Affine> subscripts,
                             const DimValues& dims)
    : subscripts_(std::move(subscripts)), strides_(strides_of(plan, tensor, dims)) {
  for (std::size_t k = 0; k < subscripts_.size(); ++k) first += value_at_zero(subscripts_[k], dims) * strides_[k];
}

std::int64_t AccessStrides::along(Symbol symbol) const {
  std::int64_t stride = 0;
  for (std::size_t k = 0; k < subscripts_.size(); ++k) stride += subscripts_[k].coefficient(symbol) * strides_[k];
  return stride;
}

std::vector<Affine> axes_of(const Definition& definition) {
  std::vector<Affine> axes;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) axes.emplace_back(Symbol::axis(k));
  return axes;
}

std::int64_t value_at_zero(const Affine& affine, const DimValues& dims) {
  const Affine zero(0);
  return evaluate(affine.substitute([&](Symbol symbol) { return symbol.is_dim() ? nullptr : &zero; }), dims);
}

}  // namespace moxie
