#include "compiler/codegen/cuda/wide_access.h"

#include <algorithm>

#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/expression/functions.h"

namespace moxie::cuda_text {
namespace {

constexpr int kWidestBytes = 16;
/// Of one element: a quarter of a Philox block, and Box and Muller's transform.
constexpr double kRandomCost = 25;

int element_bytes(DType dtype) { return static_cast<int>(bytes_of(dtype)); }

/// Calls visitor(buffer, subscripts, is_store) for every access to a tensor in the block.
template <class Visitor>
void visit_accesses(const LoopProgram& program, const Block& block, const Visitor& visitor) {
  visit_statements(block, [&](const Statement& s) {
    if (const auto* store = std::get_if<stmt::Store>(&s))
      visitor(program.buffers.at(store->buffer), store->subscripts, true);
    const auto* let = std::get_if<stmt::Let>(&s);
    const auto* load = let ? std::get_if<op::Load>(&program.values.at(let->id).operation) : nullptr;
    if (load) visitor(program.buffers.at(load->buffer), load->subscripts, false);
  });
}

/// The loop over samples inside the loop over elements, and no other.
bool is_plain_map(const LoweredKernel& kernel, const KernelShape& shape) {
  bool plain = shape.vector_loop && shape.sample_loop && !shape.lanes_reduce && !shape.has_partials &&
               kernel.program.arrays.empty() && kernel.program.vars.empty();
  visit_statements(kernel.program.body, [&](const Statement& s) {
    const auto* loop = std::get_if<stmt::For>(&s);
    plain = plain && (!loop || loop == shape.vector_loop || loop == shape.sample_loop);
  });
  return plain;
}

}  // namespace

bool is_wide(const BufferDecl& buffer, const std::vector<Affine>& subscripts, Symbol vector, int width) {
  if (buffer.layout.empty()) return false;
  const std::uint32_t fastest = buffer.layout.back();
  const Affine& extent = buffer.shape[fastest];
  if (subscripts[fastest] != Affine(vector) || !extent.is_constant() || extent.constant() % width != 0) return false;
  return std::ranges::none_of(subscripts, &Affine::mentions_value) &&
         std::ranges::count_if(subscripts, [&](const Affine& s) { return s.mentions(vector); }) == 1;
}

int widest_access(const LoweredKernel& kernel, const KernelShape& shape) {
  if (!is_plain_map(kernel, shape)) return 1;
  const auto rounds = constant_rounds(kernel.tiles->range);
  const Symbol vector = shape.vector_loop->variable;
  for (int width = 4; width > 1; width /= 2) {
    bool fits = rounds && *rounds % width == 0;
    visit_accesses(kernel.program, shape.vector_loop->body,
                   [&](const BufferDecl& buffer, const std::vector<Affine>& subscripts, bool store) {
                     const bool wide = is_wide(buffer, subscripts, vector, width);
                     fits = fits && (wide || !store) && (!wide || width * element_bytes(buffer.dtype) <= kWidestBytes);
                   });
    if (fits) return width;
  }
  return 1;
}

ElementCost element_cost(const LoweredKernel& kernel, const KernelShape& shape) {
  ElementCost cost;
  const Block& body = shape.sample_loop->body;
  visit_statements(body, [&](const Statement& s) {
    const auto* let = std::get_if<stmt::Let>(&s);
    if (!let) return;
    const Operation& operation = kernel.program.values.at(let->id).operation;
    if (const auto* call = std::get_if<op::Call>(&operation)) cost.operations += call->function->cost;
    if (std::holds_alternative<op::Random>(operation)) cost.operations += kRandomCost;
  });
  visit_accesses(kernel.program, body, [&](const BufferDecl& buffer, const std::vector<Affine>&, bool) {
    cost.bytes += element_bytes(buffer.dtype);
  });
  return cost;
}

}  // namespace moxie::cuda_text
