#include "compiler/diff/body_tangent.h"

#include <algorithm>
#include <deque>
#include <map>
#include <ranges>

#include "compiler/diff/chain.h"
#include "compiler/diff/guards.h"
#include "compiler/diff/local_definitions.h"
#include "compiler/diff/reduction_adjoint.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

class BodyTangent {
 public:
  BodyTangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of, Gates& gates)
      : builder_(builder),
        definition_(definition),
        tangent_of_(tangent_of),
        gates_(gates),
        open_(open_definition(definition)),
        local_(builder, definition, open_, "tan.", gates) {}

  Expr run() {
    Replacement closing;
    for (std::uint32_t k = 0; k < definition_.axes.size(); ++k)
      closing.emplace_back(open_.domain.variables[k], Symbol::axis(k));
    return substitute(tangent(open_.body, scope_number(open_.domain)), closing);
  }

 private:
  // ---- The tangent of a node, where the indices of a scope are open ----

  Expr tangent(const Expr& node, std::size_t scope) {
    if (node->args.empty() && node->kind != NodeKind::Access) return 0;
    const auto known = done_.find({node.get(), scope});
    if (known != done_.end()) return known->second.second;
    const Expr result = compute(node, scope);
    done_.emplace(std::pair{node.get(), scope}, std::pair{node, result});
    return result;
  }

  Expr compute(const Expr& node, std::size_t scope) {
    switch (node->kind) {
      case NodeKind::Access:
        return tangent_of_(node);
      case NodeKind::Call:
        return node->function->name == "where" ? of_choice(node, scope) : of_call(node, scope);
      case NodeKind::Reduce:
        return reads_active(node) ? of_reduction(node, scope) : Expr(0);
      case NodeKind::LinearAlgebra:
        throw InternalError("linear algebra inside an expression was not lifted before differentiation");
      default:
        return 0;
    }
  }

  Expr of_call(const Expr& node, std::size_t scope) {
    if (node->function->result == ResultType::Truth) return 0;
    Expr total = 0;
    for (std::size_t i = 0; i < node->args.size(); ++i) {
      const Expr below = tangent(node->args[i], scope);
      if (below->is_constant(0)) continue;
      const Expr local = node->function->derivative(node->args, value_of(node), i);
      total = accumulate(total, gates_.chain(local, below));
    }
    // What is computed in another precision has its tangent computed in it.
    const bool converts = node->function->name == "f32" || node->function->name == "f64";
    return converts && !total->is_constant(0) ? call(*node->function, {total}) : total;
  }

  Expr of_choice(const Expr& node, std::size_t scope) {
    const Expr taken = tangent(node->args[1], narrowed(scope, node->args[0], true));
    const Expr other = tangent(node->args[2], narrowed(scope, node->args[0], false));
    if (taken->is_constant(0) && other->is_constant(0)) return 0;
    return call("where", {node->args[0], taken, other});
  }

  Expr of_reduction(const Expr& node, std::size_t scope) {
    if (extremum_of(node->reduce)) return 0;  // positions are constant
    const IterationDomain around = scopes_[scope];
    const Expr whole = substitute(tensor_access(definition_.name, own_axes(definition_.axes.size())), open_.opening);
    const ReductionDerivative local = differentiate_reduction(
        node, {around, builder_.program(), definition_.name, open_.body, whole, computed_dtype(definition_.dtype),
               [&](const Expr& value, DType dtype) { return local_.stored(value, around, dtype); },
               [&] { return local_.stored(value_of(node), around, computed_dtype(definition_.dtype)); }});
    IterationDomain inner = around;
    for (const SumLoop& loop : local.loops) inner = extended(inner, loop.index, loop.range);
    Expr sum = gates_.chain(local.derivative, tangent(local.body, scope_number(inner)));
    if (sum->is_constant(0)) return 0;
    for (const SumLoop& loop : local.loops | std::views::reverse)
      sum = reduce(ReduceKind::Sum, loop.index, loop.range, sum);
    return sum;
  }

  // ---- Scopes ----

  std::size_t scope_number(const IterationDomain& domain) {
    const auto it = std::ranges::find(scopes_, domain);
    if (it != scopes_.end()) return static_cast<std::size_t>(it - scopes_.begin());
    scopes_.push_back(domain);
    return scopes_.size() - 1;
  }

  /// Where a condition on indices holds, or does not.
  std::size_t narrowed(std::size_t scope, const Expr& truth, bool holds) {
    const IndexCondition condition = conditions_of(truth, holds);
    IterationDomain domain = scopes_[scope];
    const auto add = [](std::vector<Affine>& rows, const std::vector<Affine>& more) {
      for (const Affine& row : more) {
        if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
      }
    };
    add(domain.nonnegative, condition.nonnegative);
    add(domain.zero, condition.zero);
    return scope_number(domain);
  }

  // ---- Facts ----

  /// Whether some access below has a tangent; what a reduction stores is computed in no other case.
  bool reads_active(const Expr& expr) const {
    bool found = false;
    visit(expr,
          [&](const Expr& e) { found = found || (e->kind == NodeKind::Access && !tangent_of_(e)->is_constant(0)); });
    return found;
  }

  /// The value of the whole body stands in the definition itself.
  Expr value_of(const Expr& node) const {
    return is_whole_value(open_.body, node)
               ? substitute(tensor_access(definition_.name, own_axes(definition_.axes.size())), open_.opening)
               : node;
  }

  ProgramBuilder& builder_;
  const Definition& definition_;
  const AccessTangent& tangent_of_;
  Gates& gates_;
  const OpenDefinition open_;
  LocalDefinitions local_;
  std::deque<IterationDomain> scopes_;
  /// The node is kept alive, as its address is the key.
  std::map<std::pair<const Node*, std::size_t>, std::pair<Expr, Expr>> done_;
};

}  // namespace

Expr body_tangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of,
                  Gates& gates) {
  return BodyTangent(builder, definition, tangent_of, gates).run();
}

}  // namespace moxie
