#include "compiler/fuse/shared_factor.h"

#include <algorithm>

namespace moxie {
namespace {

bool has_one_matrix(const KernelRoot& root) {
  return std::ranges::all_of(root.locals, [&](const LoopIndex& loop) { return is_element_index(root, loop); });
}

}  // namespace

bool is_linear_algebra(const KernelRoot& root) { return root.definition.body->kind == NodeKind::LinearAlgebra; }

Factorisation factorisation_of(const KernelRoot& root) { return algebra_form(root.body->algebra).factorisation; }

bool is_element_index(const KernelRoot& root, const LoopIndex& loop) {
  return std::ranges::any_of(root.body->subscripts, [&](const Affine& s) { return s.mentions(loop.symbol); });
}

bool share_factor(const KernelRoot& a, const KernelRoot& b) {
  const auto fits = [](const KernelRoot& root) {
    if (!is_linear_algebra(root) || !has_one_matrix(root)) return false;
    return factorisation_of(root) != Factorisation::None && factorisation_of(root) != Factorisation::Lu;
  };
  return fits(a) && fits(b) && factorisation_of(a) == factorisation_of(b) && a.definition.dtype == b.definition.dtype &&
         a.body->size == b.body->size && a.body->args[0] == b.body->args[0];
}

}  // namespace moxie
