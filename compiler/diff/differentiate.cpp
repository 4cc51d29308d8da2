#include "compiler/diff/differentiate.h"

#include <algorithm>
#include <array>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/adjoint_bounds.h"
#include "compiler/diff/algebra_adjoint.h"
#include "compiler/diff/body_adjoint.h"
#include "compiler/diff/chain.h"
#include "compiler/diff/index_tables.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/prefix_recurrence.h"
#include "compiler/diff/recompute.h"
#include "compiler/diff/repeated_contractions.h"
#include "compiler/diff/safe_reads.h"
#include "compiler/diff/shifted_arguments.h"
#include "compiler/diff/vanishing_sums.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

/// Reductions over a prefix that have recurrences as their derivatives: see lift_prefixes().
constexpr std::array kRecurring = {ReduceKind::Product, ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp};

class Differentiation {
 public:
  Differentiation(const Program& lifted, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt)
      : builder_(lifted),
        source_(lifted),
        wrt_(wrt),
        active_(active_tensors(lifted, wrt)),
        gates_(builder_.program()),
        contributions_(gates_) {
    for (const std::string& output : outputs) {
      const std::string name = builder_.free_name("cot." + output);
      builder_.add_input({name, lifted.dtype_of(output), lifted.shape_of(output), ValueDomain::Any});
      cotangents_.emplace(output, name);
    }
    for (const std::string& input : wrt) {
      gradients_.emplace(input, builder_.free_name("grad." + input));
      builder_.reserve(gradients_.at(input));
    }
  }

  Program run() {
    const auto groups = groups_of(source_);
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      const Definition& first = group->front();
      if (first.scan)
        pass_scan(*group);
      else if (active_.contains(first.name))
        pass_by_itself(first);
    }
    for (const std::string& input : wrt_) add_gradient(*source_.find_input(input));
    Program result = builder_.take();
    const std::set<std::string> conditional = read_under_conditions(source_);
    for (Definition& definition : result.definitions) {
      if (!source_.find_definition(definition.name)) definition.body = with_safe_reads(result, definition, conditional);
    }
    return with_recomputed_copies(result);
  }

 private:
  Expr total_adjoint(const Definition& definition) const {
    const auto cotangent = cotangents_.find(definition.name);
    const Expr from_caller =
        cotangent == cotangents_.end() ? Expr(0) : tensor_access(cotangent->second, own_axes(definition.axes.size()));
    return accumulate(from_caller, contributions_.to(definition.name));
  }

  void pass(Definition definition) {
    Expr adjoint = without_vanishing_sums(builder_.program(), total_adjoint(definition));
    if (adjoint->is_constant(0)) return;
    if (adjoint->kind != NodeKind::Access) {
      if (definition.body->kind != NodeKind::LinearAlgebra) {
        BoundedAdjoint bounded = with_bounds(source_.dims, definition.axes, adjoint);
        definition.axes = std::move(bounded.axes);
        adjoint = std::move(bounded.body);
      }
      const Definition named{builder_.free_name("adj." + definition.name),
                             computed_dtype(definition.dtype),
                             definition.axes,
                             adjoint,
                             false,
                             definition.line};
      adjoint = tensor_access(named.name, own_axes(definition.axes.size()));
      builder_.add_definition(named);
      if (is_gated(definition)) gates_.add(named.name);
    }
    send_down(definition, adjoint, is_gated(definition));
  }

  void pass_by_itself(const Definition& definition) {
    const Expr& body = definition.body;
    const bool may_recur =
        body->kind == NodeKind::Reduce && std::ranges::find(kRecurring, body->reduce) != kRecurring.end();
    const auto recurrence = may_recur ? prefix_recurrence(source_, definition) : std::nullopt;
    if (!recurrence) return pass(definition);
    const Definition step = differentiable_step(definition, *recurrence);
    pass_scan({&step, 1});
  }

  /// Whether all of the definition's adjoint passed a `where`.
  bool is_gated(const Definition& definition) const {
    return !cotangents_.contains(definition.name) && contributions_.is_gated(definition.name);
  }

  /// The adjoints of a scan form a scan in the other direction. They depend on each other, so each has its name first
  /// and its body when all contributions are known.
  void pass_scan(std::span<const Definition> members) {
    const std::vector<Definition> reached = reached_backwards(members);
    const Scan scan{last_scan(builder_.program()) + 1, !members[0].scan->backwards, members[0].scan->checkpoints};
    const std::size_t first = builder_.program().definitions.size();
    const bool chooses =
        std::ranges::any_of(reached, [](const Definition& member) { return chooses_by_value(member.body); });
    std::vector<std::string> names;
    for (Definition member : reached) {
      member.scan = scan;
      names.push_back(builder_.free_name("adj." + member.name));
      builder_.add_definition({names.back(), computed_dtype(member.dtype), member.axes, 0, false, member.line, scan});
      // What only later steps read may be read through any of the scan's choices.
      const bool gated = is_gated(member) || (chooses && total_adjoint(member)->is_constant(0));
      if (gated) gates_.add(names.back());
      send_down(member, tensor_access(names.back(), own_axes(member.axes.size())), gated);
    }
    for (std::size_t k = 0; k < reached.size(); ++k) builder_.set_body(names[k], total_adjoint(reached[k]));
    builder_.move_behind_scans(first);
  }

  /// Last to first, the definitions of a scan that have an adjoint: from outside, or from others that do and read them.
  std::vector<Definition> reached_backwards(std::span<const Definition> members) const {
    std::vector<Definition> reached;
    const auto is_reached = [&](const Definition& member) {
      return !total_adjoint(member)->is_constant(0) ||
             std::ranges::any_of(reached, [&](const Definition& reader) { return reads(reader, member.name); });
    };
    const auto in_order = [&](const Definition& a, const Definition& b) { return position(a) > position(b); };
    for (bool grows = true; grows;) {
      const std::size_t size = reached.size();
      for (const Definition& member : members) {
        const bool known = std::ranges::find(reached, member.name, &Definition::name) != reached.end();
        if (!known && active_.contains(member.name) && is_reached(member)) reached.push_back(member);
      }
      grows = reached.size() > size;
    }
    std::ranges::sort(reached, in_order);
    return reached;
  }

  std::ptrdiff_t position(const Definition& definition) const {
    return source_.find_definition(definition.name) - source_.definitions.data();
  }

  void send_down(const Definition& definition, const Expr& adjoint, bool gated) {
    if (definition.body->kind == NodeKind::LinearAlgebra)
      differentiate_algebra(builder_, definition, adjoint, contributions_, gated ? &gates_ : nullptr);
    else
      differentiate_body(builder_, definition, adjoint, active_, contributions_, gates_, gated);
  }

  void add_gradient(const InputDecl& input) {
    builder_.add_definition({gradients_.at(input.name), input.dtype, builder_.axes_for(input.shape),
                             contributions_.to(input.name), true, 0});
  }

  ProgramBuilder builder_;
  const Program source_;
  const std::vector<std::string> wrt_;
  const ActiveTensors active_;
  std::map<std::string, std::string> cotangents_, gradients_;
  Gates gates_;
  Contributions contributions_;
};

/// The program with what derivatives need whole in definitions of their own: contractions whose adjoint has several
/// parts, arguments of costly functions that read several elements, log-sum-exps and extrema of rows, functions of
/// indices that they substitute, and what is a recurrence to derivatives.
Program lifted(const Program& program, const std::vector<std::string>& wrt) {
  const Program with_tables = lift_index_tables(program, active_tensors(program, wrt));
  const Program with_contractions = lift_repeated_contractions(with_tables, active_tensors(with_tables, wrt));
  const Program with_normalisers = lift_normalisers(with_contractions, active_tensors(with_contractions, wrt));
  const Program with_extrema = lift_extrema(with_normalisers, active_tensors(with_normalisers, wrt));
  const Program with_arguments = lift_shifted_arguments(with_extrema, active_tensors(with_extrema, wrt));
  const ActiveTensors active = active_tensors(with_arguments, wrt);
  return lift_prefixes(with_arguments, kRecurring, &active);
}

}  // namespace

Program differentiate(const Program& program, const std::vector<std::string>& outputs,
                      const std::vector<std::string>& wrt, bool keep_outputs) {
  check_derivative_names(program, outputs, wrt);
  const std::vector<std::string> inputs = wrt.empty() ? real_inputs(program) : wrt;
  return Differentiation(lifted(prepared_for_derivatives(program, keep_outputs), inputs), outputs, inputs).run();
}

}  // namespace moxie
