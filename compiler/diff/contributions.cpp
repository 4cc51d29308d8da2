#include "compiler/diff/contributions.h"

#include "compiler/diff/chain.h"
#include "compiler/diff/guards.h"

namespace moxie {
namespace {

std::vector<Range> axis_ranges(const Program& program, const std::string& tensor, const std::vector<Affine>& shape) {
  std::vector<Range> ranges;
  if (const Definition* definition = program.find_definition(tensor)) {
    for (const AxisDecl& axis : definition->axes) ranges.push_back(axis.range);
  } else {
    for (const Affine& extent : shape) ranges.push_back(Range::extent(extent));
  }
  return ranges;
}

/// Whether the subscript is the element of the axis: `value == axis - offset` where one value stands in it.
Expr reads_element(const Expr& read, std::uint32_t axis) {
  const Affine& subscript = read->subscripts[axis];
  const Affine wanted = Symbol::axis(axis);
  if (read->args.size() == 1 && subscript.coefficient(Symbol::value(0)) == 1)
    return call("==", {read->args[0], index_value(wanted - (subscript - Affine(Symbol::value(0))))});
  return call("==", {subscript_value(read, axis), index_value(wanted)});
}

}  // namespace

void Contributions::add(const Program& program, const IterationDomain& domain, const Expr& read, const Expr& adjoint,
                        DType dtype, bool gated) {
  if (adjoint->is_constant(0)) return;
  const std::vector<Affine> shape = program.shape_of(read->tensor);
  const KnownRanges known = known_inside(program, shape, axis_ranges(program, read->tensor, shape));
  std::vector<Equation> equations;
  std::vector<Expr> conditions;  // one for each subscript that depends on values
  for (std::uint32_t k = 0; k < read->subscripts.size(); ++k) {
    if (read->subscripts[k].mentions_value())
      conditions.push_back(reads_element(read, k));
    else
      equations.push_back({read->subscripts[k], Symbol::axis(k)});
  }
  Expr contribution = gather(invert(domain, equations, known), guarded(conditions, adjoint));
  if (dtype != computed_dtype(program.dtype_of(read->tensor))) contribution = call(to_string(dtype), {contribution});
  const auto [it, first] = sums_.emplace(read->tensor, contribution);
  if (!first) it->second = accumulate(it->second, contribution);
  bool& all_gated = gated_.try_emplace(read->tensor, true).first->second;
  all_gated = all_gated && gated && gates_.may_be_zero(contribution);
}

Expr Contributions::to(const std::string& tensor) const {
  const auto it = sums_.find(tensor);
  return it == sums_.end() ? constant(0) : it->second;
}

}  // namespace moxie
