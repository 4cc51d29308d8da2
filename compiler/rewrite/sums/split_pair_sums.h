#pragma once
#include <set>
#include <string>

#include "compiler/program/program.h"

namespace moxie {

/// l = sum[i,j](f(i,j)) -> rows[i] = sum[j](f(i,j)), l = sum[i](rows[i]), where another definition sums along these
/// rows and both read one of the tensors: they can run in the same loops then, and what both need of an element is
/// computed once.
Program split_pair_sums(const Program& program, const std::set<std::string>& tensors);

}  // namespace moxie
