#include "compiler/fuse/stored_operands.h"

#include <algorithm>

#include "compiler/expression/dtype.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_product.h"

namespace moxie {
namespace {

/// What a definition converts, element by element, if it does nothing else: an access in its axes.
std::optional<Expr> converted(const Program& program, const std::string& tensor) {
  const Definition* definition = program.find_definition(tensor);
  if (!definition || definition->scan || definition->body->kind != NodeKind::Access) return std::nullopt;
  const Expr& access = definition->body;
  if (!is_half(program.dtype_of(access->tensor))) return std::nullopt;
  const auto is_axis = [](const Affine& subscript) { return subscript.as_symbol().has_value(); };
  return std::ranges::all_of(access->subscripts, is_axis) ? std::optional(access) : std::nullopt;
}

/// The definition with both operands as they are stored.
std::optional<Definition> with_halves(const Algebra& algebra, const Program& program, Definition product) {
  product.body = rewrite_bottom_up(product.body, Scope::of(product), [&](const Expr& e, const Scope&) {
    const bool is_element = e->kind == NodeKind::Access && !reads_by_value(e);
    const auto stored = is_element ? converted(program, e->tensor) : std::nullopt;
    return stored ? substitute(*stored, axes_by_subscripts(e)) : e;
  });
  const bool suits = library_product(algebra, program, product, LibraryOperands::computed_or_halves).has_value();
  return suits ? std::optional(std::move(product)) : std::nullopt;
}

}  // namespace

Program with_stored_operands(const Program& optimised) {
  const Algebra algebra(optimised);
  Program result = optimised;
  for (Definition& definition : result.definitions) {
    if (definition.dtype != DType::f32 || !library_product(algebra, optimised, definition)) continue;
    if (auto stored = with_halves(algebra, optimised, definition)) definition = std::move(*stored);
  }
  return result == optimised ? result : drop_unused(result);
}

}  // namespace moxie
