#include "runtime/tensor_binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/domain_check.h"
#include "runtime/plan.h"

namespace moxie {
namespace {

const Definition* output_named(const Program& program, const std::string& name) {
  const Definition* definition = program.find_definition(name);
  return definition && definition->output ? definition : nullptr;
}

template <class SomeError>
[[noreturn]] void refuse_view(const std::string& tensor, const std::string& expected, const std::string& found,
                              const std::string& remedy) {
  const std::string problem = fmt::format("tensor {}: expected {}, found {}", tensor, expected, found);
  throw SomeError(
      fmt::format("{}; {}", problem, remedy),
      ErrorDetails{.problem = problem, .remedy = remedy, .name = tensor, .expected = expected, .found = found});
}

std::string text_of_extents(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

}  // namespace

TensorBinding make_binding(const Program& program, const std::string& tensor, const TensorView& view) {
  const InputDecl* input = program.find_input(tensor);
  if (!input && !output_named(program, tensor))
    throw TypeError(fmt::format("program {} has no input or output '{}'", program.name, tensor));
  check_view(view);
  const DType dtype = program.dtype_of(tensor);
  if (view.dtype != dtype)
    refuse_view<TypeError>(tensor, to_string(dtype), to_string(view.dtype),
                           "convert the values, or declare another dtype in the formula");
  const std::size_t axes = program.shape_of(tensor).size();
  if (view.shape.size() != axes)
    refuse_view<ShapeError>(tensor, fmt::format("{} axes", axes), text_of_extents(view.shape),
                            "give a view with an extent for each axis");
  TensorBinding binding{.view = view, .is_output = input == nullptr};
  if (input) binding.is_checked = has_limits(*input) && is_on_host(view);
  if (input) return binding;
  if (view.read_only)
    refuse_view<UsageError>(tensor, "memory that can be written", "read-only memory",
                            "it is an output: bind other memory, or copy from get()");
  if (overlaps_itself(view))
    refuse_view<UsageError>(
        tensor, "elements at addresses of their own",
        fmt::format("strides [{}] of shape [{}]", fmt::join(view.strides, ","), fmt::join(view.shape, ",")),
        "it is an output: give strides by which no elements overlap");
  binding.has_gaps = has_gaps(program, tensor);
  return binding;
}

void check_shared_memory(const TensorBindings& bindings) {
  for (const auto& [output, written] : bindings) {
    if (!written.is_output) continue;
    for (const auto& [other, binding] : bindings) {
      if (other == output || !share_memory(written.view, binding.view)) continue;
      throw UsageError(
          fmt::format("output {} and {} {} are bound to the same memory; bind the output to memory of its "
                      "own, or let feed_back() renew an input",
                      output, binding.is_output ? "output" : "input", other));
    }
  }
}

void check_extents(const std::string& output, const TensorView& view, const std::vector<std::int64_t>& extents) {
  if (view.shape == extents) return;
  refuse_view<ShapeError>(output, text_of_extents(extents), text_of_extents(view.shape),
                          "bind memory of the shape that the inputs give this output, or unbind() it");
}

std::unique_ptr<Buffer> buffer_for(Device& device, TensorBinding& binding) {
  auto memory = device.view_buffer(binding.view);
  binding.in_place = memory != nullptr;
  if (memory) return memory;
  memory = device.make_buffer();
  memory->resize(bytes_of(binding.view));
  return memory;
}

}  // namespace moxie
