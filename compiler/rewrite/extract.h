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

/// A name for one more axis: that of a declared index of this extent, or one that nothing else has.
std::string axis_name(const Program& program, const std::vector<AxisDecl>& axes, const Affine& extent);

}  // namespace moxie
