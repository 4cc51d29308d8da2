#pragma once
// The C++ form of reductions that the user defines:
//
//   const Monoid affine("affine", {{"a", 1}, {"b", 0}}, [](const State& f, const State& g) {
//     return State{g[0] * f[0], g[0] * f[1] + g[1]};
//   });
//   Index t(T), u(0, Expr(t) + 1);
//   const State prefix = reduce(p, "prefix", affine, u, {t}, {a(u), b(u)});
//   p.output("x", {t}, prefix[1]);  // x[t] = a[t]*x[t-1] + b[t]
#include "compiler/builder/builder.h"
#include "compiler/program/monoid.h"

namespace moxie {

/// The reduced state of the elements over `index`, an expression of the indices `outer`: all indices around the
/// reduction that its elements, its range or the ranges of other outer indices depend on, outermost first. Adds
/// definitions to `program`, whose names start with `name`. Throws ShapeError for a wrong number of components, or
/// where no bound of the range is known, and what verify() would; it then has changed nothing.
State reduce(Program& program, const std::string& name, const Monoid& monoid, const Index& index,
             const std::vector<Index>& outer, const State& elements);

}  // namespace moxie
