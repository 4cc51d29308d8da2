#include "compiler/rewrite/patterns/window.h"

#include <algorithm>

namespace moxie {

Affine Window::axis_by_position() const {
  const std::int64_t sign = shifted.coefficient(axis);
  return (Affine(position) - shifted) * sign + Affine(axis);
}

std::optional<Window> window_of(const Program& program, const Expr& expr, Symbol axis,
                                const std::vector<Symbol>& indices) {
  std::optional<Window> found;
  visit(expr, [&](const Expr& e) {
    if (found || e->kind != NodeKind::Access) return;
    for (std::size_t k = 0; k < e->subscripts.size(); ++k) {
      const Affine& subscript = e->subscripts[k];
      const bool moves_by_one = subscript.coefficient(axis) == 1 || subscript.coefficient(axis) == -1;
      const bool moves_with_index =
          std::ranges::any_of(indices, [&](Symbol index) { return subscript.mentions(index); });
      if (moves_by_one && moves_with_index && !subscript.mentions_value())
        found = Window{Symbol::fresh(), axis, subscript, program.shape_of(e->tensor)[k]};
    }
  });
  return found;
}

}  // namespace moxie
