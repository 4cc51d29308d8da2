#include "runtime/aot/interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "compiler/support/error.h"

namespace moxie::aot {
namespace {

/// Of C99 and C++20, and the names that the header uses itself.
constexpr std::string_view kReserved =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast "
    "struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual "
    "void volatile wchar_t while xor xor_eq _Bool _Complex _Imaginary int64_t uint64_t linux unix seed step errno ";

bool draws_random(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const PlanStep& step) {
    return std::ranges::any_of(kernels_of(step),
                               [](const LoweredKernel* kernel) { return draws_random(kernel->program); });
  });
}

void require_distinct(const Interface& interface) {
  std::map<std::string, std::string> owners;
  const auto add = [&](const std::string& field, const std::string& name) {
    const auto [known, is_new] = owners.emplace(field, name);
    if (!is_new)
      throw TypeError(fmt::format("{} and {} of {} are both called {} in C; rename one of them", known->second, name,
                                  interface.name, field));
  };
  for (const DimArgument& dim : interface.dims) add(dim.field, dim.name);
  for (const TensorArgument& tensor : interface.tensors) add(tensor.field, tensor.name);
}

}  // namespace

std::string c_name(std::string_view name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0) result.insert(0, "m_");
  if (kReserved.find(" " + result + " ") != kReserved.npos) result += '_';
  return result;
}

Interface interface_of(const Program& program, const std::string& name, bool random) {
  Interface interface{name, {}, {}, random};
  for (const DimDecl& dim : program.dims) {
    if (dim.dynamic) interface.dims.push_back({dim.name, c_name(dim.name)});
  }
  for (const InputDecl& input : program.inputs)
    interface.tensors.push_back({input.name, c_name(input.name), input.dtype, input.shape, false, input.domain});
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    interface.tensors.push_back(
        {definition.name, c_name(definition.name), definition.dtype, program.shape_of(definition.name), true});
  }
  require_distinct(interface);
  return interface;
}

Interface interface_of(const Plan& plan, const std::string& name) {
  return interface_of(plan.program, name, draws_random(plan));
}

std::string shape_text(const std::vector<Affine>& shape) {
  std::vector<std::string> extents;
  for (const Affine& extent : shape) extents.push_back(print(extent));
  return fmt::format("[{}]", fmt::join(extents, ","));
}

std::string count_text(const std::vector<Affine>& shape) {
  std::vector<std::string> extents;
  for (const Affine& extent : shape) {
    const std::string text = print(extent);
    const bool is_plain = extent.is_constant() || extent.as_symbol().has_value();
    extents.push_back(is_plain ? text : "(" + text + ")");
  }
  return extents.empty() ? "1" : fmt::format("{}", fmt::join(extents, "*"));
}

}  // namespace moxie::aot
