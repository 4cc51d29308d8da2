#pragma once
// Roots of one kernel that are results of one matrix, such as its inverse and its determinant: it is factored once.
#include "compiler/expression/algebra_form.h"
#include "compiler/fuse/fuse.h"

namespace moxie {

bool is_linear_algebra(const KernelRoot& root);
/// What a linear algebra root makes of its matrix first.
Factorisation factorisation_of(const KernelRoot& root);
/// Whether a loop of a linear algebra root counts elements of the result, not matrices.
bool is_element_index(const KernelRoot& root, const LoopIndex& loop);
/// Whether both roots, in the same shared loops, need the same factors of the same matrix and of no other.
bool share_factor(const KernelRoot& a, const KernelRoot& b);

}  // namespace moxie
