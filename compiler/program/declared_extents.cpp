#include "compiler/program/declared_extents.h"

#include <algorithm>

#include "compiler/arithmetic/exact_integer.h"

namespace moxie {

const IndexDecl* find_index(const Program& program, std::string_view name) {
  const auto it = std::ranges::find(program.indices, name, &IndexDecl::name);
  return it == program.indices.end() ? nullptr : &*it;
}

std::string shape_text(const std::vector<Affine>& shape) {
  std::string text;
  for (const Affine& extent : shape) text += (text.empty() ? "" : ",") + print(extent);
  return "[" + text + "]";
}

bool mentions_only_dims(const Affine& affine) {
  return std::ranges::all_of(affine.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
}

std::optional<std::int64_t> value_in_text(const Program& program, const Affine& dims) {
  std::int64_t value = dims.constant();
  for (const auto& [symbol, coefficient] : dims.terms()) {
    const DimDecl* dim = symbol.is_dim() ? program.find_dim(symbol.name()) : nullptr;
    if (!dim || !dim->value || dim->dynamic) return std::nullopt;
    value = checked_add(value, checked_mul(coefficient, *dim->value));
  }
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<Affine> index_extent(const Program& program, std::string_view name, const Range* in_scope) {
  if (const IndexDecl* index = find_index(program, name)) return index->range.as_extent();
  return in_scope ? in_scope->as_extent() : std::nullopt;
}

std::optional<Affine> axis_extent(const Program& program, std::string_view name, const Range& range) {
  if (const IndexDecl* index = find_index(program, name)) return index->range.as_extent();
  const bool simple =
      range.highs.size() == 1 && range.highs[0].divisor == 1 && mentions_only_dims(range.highs[0].value);
  return simple ? std::optional(range.highs[0].value + Affine(1)) : std::nullopt;
}

}  // namespace moxie
