#include "ops/network_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/unfold.h"

namespace moxie {

NetworkBuilder::NetworkBuilder(std::string_view name, const std::vector<std::int64_t>& sizes, bool with_target) {
  program_.name = name;
  program_.dims.push_back({"S", std::nullopt, true});
  declare_index("s", dim("S"));
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) declare_dim(fmt::format("N{}", layer), sizes[layer]);
  program_.inputs.push_back({"x", program_.default_dtype, {dim("S"), width(0)}});
  if (with_target) program_.inputs.push_back({"target", program_.default_dtype, {dim("S"), width(sizes.size() - 1)}});
}

NetworkBuilder::NetworkBuilder(std::string_view name, const std::vector<std::int64_t>& row,
                               const std::vector<std::int64_t>& outputs, bool with_target, ValueDomain x_domain) {
  program_.name = name;
  program_.dims.push_back({"S", std::nullopt, true});
  declare_index("s", dim("S"));
  const auto add_input = [&](const char* input, const std::vector<std::int64_t>& extents, ValueDomain domain) {
    std::vector<Affine> shape = {dim("S")};
    shape.insert(shape.end(), extents.begin(), extents.end());
    program_.inputs.push_back({input, program_.default_dtype, std::move(shape), domain});
  };
  add_input("x", row, x_domain);
  if (with_target) add_input("target", outputs, ValueDomain::Any);
}

Affine NetworkBuilder::width(std::size_t layer) { return dim(fmt::format("N{}", layer)); }

void NetworkBuilder::declare_dim(std::string name, std::int64_t value) {
  program_.dims.push_back({std::move(name), value});
}

void NetworkBuilder::declare_index(std::string name, const Affine& extent) {
  program_.indices.push_back({std::move(name), Range::extent(extent)});
}

void NetworkBuilder::parameter(const std::string& name, std::vector<Affine> shape, Initialiser initialiser,
                               bool trainable) {
  Parameter parameter{name, {}, std::move(initialiser), trainable};
  const auto value = [&](Symbol symbol) { return program_.find_dim(symbol.name())->value.value(); };
  for (const Affine& extent : shape) parameter.shape.push_back(extent.evaluate(value));
  parameters_.push_back(std::move(parameter));
  program_.inputs.push_back({name, program_.default_dtype, std::move(shape)});
}

void NetworkBuilder::define(const std::string& name, const std::vector<Affine>& shape, const Expr& body, bool output) {
  Definition definition{name, program_.default_dtype, {}, body, output};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    definition.axes.push_back({fmt::format("i{}", axis), shape[axis], Range::extent(shape[axis])});
  }
  program_.definitions.push_back(std::move(definition));
}

void NetworkBuilder::define_integers(const std::string& name, const std::vector<Affine>& shape, const Expr& body) {
  define(name, shape, body);
  program_.definitions.back().dtype = DType::i32;
}

void NetworkBuilder::apply(std::string_view op, const Inclusion& how) { include(program_, load_op(op), how); }

void NetworkBuilder::apply_pointwise(std::string_view op, const std::vector<Affine>& shape, const Inclusion& how) {
  include(program_, unfold(load_op(op), "N", shape.size()), how);
}

void check_sizes(std::string_view network, const std::vector<std::int64_t>& sizes, std::size_t least) {
  const bool positive = std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; });
  if (sizes.size() >= least && positive) return;
  throw TypeError(
      fmt::format("the sizes of a {} are {}, but it needs at least {} positive ones, from the inputs to the outputs",
                  network, fmt::join(sizes, "x"), least));
}

Expr element(const std::string& tensor, std::size_t rank) {
  std::vector<Affine> subscripts;
  for (std::size_t axis = 0; axis < rank; ++axis)
    subscripts.emplace_back(Symbol::axis(static_cast<std::uint32_t>(axis)));
  return tensor_access(tensor, std::move(subscripts));
}

}  // namespace moxie
