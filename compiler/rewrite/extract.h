#pragma once
// Parts of bodies as definitions of their own.
#include <optional>
#include <string>

#include "compiler/rewrite/scope.h"

namespace moxie {

struct Extraction {
  Definition definition;
  Expr read;  // stands for the part
};

/// `expr` as a definition called `stem` (or `stem.1`, ...) over the open symbols that it depends on. Nothing where it
/// cannot stand alone: where an access lies inside its tensor only thanks to a guard around `expr`, or an index takes
/// negative values.
std::optional<Extraction> extract(const Program& program, const Scope& scope, const Expr& expr, const std::string& stem,
                                  DType dtype);

/// Makes the part, which was taken out of the body of `user`, step along with it, recomputed if `user` is. What does
/// not depend on the step is there until leave_scans().
void join_scan(Extraction& part, const Definition& user);

/// A name for one more axis: that of a declared index of this extent, or one that nothing else has.
std::string axis_name(const Program& program, const std::vector<AxisDecl>& axes, const Affine& extent);

}  // namespace moxie
