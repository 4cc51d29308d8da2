#pragma once
// Parts of bodies as definitions of their own.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// A sum as it may stand in a definition of its own.
struct Guarded {
  Expr sum;     // states the conditions that guard it here, as far as they are on indices of its own
  Scope scope;  // has the others; the ranges of indices say what a condition on one of them does
};
Guarded with_guards(const Expr& sum, const Scope& scope);

/// Storage is a box: room for the smallest upper bound of the range for any values of the open indices.
Affine room_for(const Range& range, const Scope& scope);

/// The scope with the indices that the expression depends on in the order in which a tensor that it reads has all of
/// them, if there is one: equal expressions are equal definitions then, wherever they stand. The step of a scan comes
/// before the others.
Scope in_order_of_reads(Scope scope, const Expr& expr);

struct Extraction {
  Definition definition;
  Expr read;  // stands for the part
};

/// The order of the axes of a new definition: outermost index first; or so but for the one along which most accesses
/// read neighbours, which comes last.
enum class ExtractedAxes : std::uint8_t { as_open, neighbours_last };

/// `expr` as a definition called `stem` (or `stem.1`, ...) over the open symbols that it depends on. Nothing where it
/// cannot stand alone: where an access lies inside its tensor only thanks to a guard around `expr`, or an index takes
/// negative values.
std::optional<Extraction> extract(const Program& program, const Scope& scope, const Expr& expr, const std::string& stem,
                                  DType dtype, ExtractedAxes axes = ExtractedAxes::neighbours_last);

/// Adds the part, which was taken out of the body of `user`, to the definitions of `program`. What depends on the step
/// of a scan steps along with `user`, recomputed if `user` is. Gives what stands for the part.
Expr add_part(Program& program, Extraction part, const Definition& user);

/// Gives what is left of the body of a definition, after it has added parts to `program`, which has every definition so
/// far. Taking the last of them away again undoes that.
using BodySplitter = std::function<Expr(Program& program, const Definition& user)>;
/// The Program with all bodies split, parts before what they were taken out of: before the whole scan if they do not
/// step.
Program split_bodies(const Program& program, const BodySplitter& split);

/// A name for one more axis: that of a declared index of this extent, or one that nothing else has.
std::string axis_name(const Program& program, const std::vector<AxisDecl>& axes, const Affine& extent);

}  // namespace moxie
