#include "compiler/diff/safe_reads.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "compiler/expression/functions.h"
#include "compiler/program/index_domain.h"

namespace moxie {
namespace {

/// The comparisons that `access`, with what its subscripts read, needs and `domain` refutes.
std::vector<Expr> missing_tests(const Program& program, const Expr& access, const IndexDomain& domain) {
  std::vector<Expr> tests;
  // Where indices are compared with each other, on a diagonal or at an end that moves, an element that is outside for
  // all but the smallest extents is not refuted: for these it is inside.
  const auto require = [&](const Affine& high, const Affine& low) {
    const Affine room = high - low;
    const auto is_index = [](const Affine::Term& term) { return !term.first.is_dim(); };
    const Proof proof = domain.prove_nonnegative(room);
    if (proof == Proof::Fails || (proof == Proof::Unknown && std::ranges::count_if(room.terms(), is_index) > 1))
      tests.push_back(call(">=", {index_value(high), index_value(low)}));
  };
  const Definition* definition = program.find_definition(access->tensor);
  const std::vector<Affine> shape = program.shape_of(access->tensor);
  const auto element = [&](Symbol symbol) {
    return symbol.kind() == Symbol::Kind::Axis ? &access->subscripts[symbol.number()] : nullptr;
  };
  for (const Expr& value : access->args) {
    for (Expr& test : missing_tests(program, value, domain)) tests.push_back(std::move(test));
  }
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (access->subscripts[k].mentions_value()) continue;
    const Range range = definition ? definition->axes[k].range : Range::extent(shape[k]);
    const auto end = [&](const Bound& bound, const auto& test) {
      test(access->subscripts[k] * bound.divisor, bound.value.substitute(element));
    };
    for (const Bound& low : range.lows) end(low, require);
    for (const Bound& high : range.highs)
      end(high, [&](const Affine& place, const Affine& value) { require(value, place); });
  }
  return tests;
}

bool has_part(const Expr& expr, const Expr& part) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e == part; });
  return found;
}

std::vector<Expr> with(std::vector<Expr> conditions, const Expr& condition) {
  conditions.push_back(condition);
  return conditions;
}

/// Whether one of the conditions is on a value that the access reads.
bool is_conditional(const Expr& access, const std::vector<Expr>& conditions) {
  return std::ranges::any_of(access->args, [&](const Expr& value) {
    return std::ranges::any_of(conditions, [&](const Expr& condition) { return has_part(condition, value); });
  });
}

/// Looks at the nodes of one place, below the same conditions, once each.
class ConditionalReads {
 public:
  explicit ConditionalReads(std::set<std::string>& tensors, std::vector<Expr> conditions = {})
      : tensors_(tensors), conditions_(std::move(conditions)) {}

  void add(const Expr& expr) {
    if (!expr->gathers || !done_.insert(expr.get()).second) return;
    if (reads_by_value(expr) && is_conditional(expr, conditions_)) tensors_.insert(expr->tensor);
    for (std::size_t k = 0; k < expr->args.size(); ++k) {
      if (is_call(expr, "where") && k > 0)
        ConditionalReads(tensors_, with(conditions_, expr->args[0])).add(expr->args[k]);
      else
        add(expr->args[k]);
    }
  }

 private:
  std::set<std::string>& tensors_;
  std::vector<Expr> conditions_;
  std::set<const Node*> done_;  // nodes of a body that the caller holds
};

/// What the subscripts that depend on values need.
std::vector<Expr> tests_of_values(const Program& program, const Expr& access) {
  std::vector<Expr> tests;
  const std::vector<Affine> shape = program.shape_of(access->tensor);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (!access->subscripts[axis].mentions_value()) continue;
    const Expr place = subscript_value(access, axis);
    tests.push_back(call(">=", {place, 0}));
    tests.push_back(call(">", {index_value(shape[axis]), place}));
  }
  return tests;
}

/// Guards the reads of one place: below the same loops and conditions.
class SafeReads {
 public:
  SafeReads(const Program& program, const std::set<std::string>& conditional, IndexDomain domain,
            std::vector<Expr> conditions = {})
      : program_(program), conditional_(conditional), domain_(std::move(domain)), conditions_(std::move(conditions)) {}

  Expr apply(const Expr& expr) {
    const auto [entry, is_new] = done_.try_emplace(expr.get());
    if (is_new) entry->second = safe(expr);
    return entry->second;
  }

 private:
  Expr safe(const Expr& expr) {
    if (expr->kind == NodeKind::Access) {
      std::vector<Expr> tests = missing_tests(program_, expr, domain_);
      if (conditional_.contains(expr->tensor) && reads_by_value(expr) && !is_conditional(expr, conditions_))
        std::ranges::move(tests_of_values(program_, expr), std::back_inserter(tests));
      if (tests.empty()) return expr;
      return call("where", {tests.size() == 1 ? tests[0] : call("and", tests), expr, 0});
    }
    if (expr->kind == NodeKind::Reduce) {
      IndexDomain inner = domain_;
      inner.add_range(Symbol::bound(expr->height), expr->range);
      SafeReads reads(program_, conditional_, std::move(inner), conditions_);
      std::vector<Expr> inside;
      for (const Expr& arg : expr->args) inside.push_back(reads.apply(arg));
      return with_args(expr, std::move(inside));
    }
    std::vector<Expr> args;
    const bool branches = expr->kind == NodeKind::Call && expr->function->name == "where";
    for (std::size_t k = 0; k < expr->args.size(); ++k) {
      const bool inside = branches && k > 0;
      args.push_back(inside ? in_branch(expr->args[0], k == 1).apply(expr->args[k]) : apply(expr->args[k]));
    }
    return with_args(expr, std::move(args));
  }

  SafeReads in_branch(const Expr& condition, bool truth) const {
    return {program_, conditional_, domain_.where(condition, truth), with(conditions_, condition)};
  }

  const Program& program_;
  const std::set<std::string>& conditional_;
  IndexDomain domain_;
  std::vector<Expr> conditions_;
  std::map<const Node*, Expr> done_;  // nodes of the body, which the caller holds
};

}  // namespace

std::set<std::string> read_under_conditions(const Program& program) {
  std::set<std::string> tensors;
  for (const Definition& definition : program.definitions) ConditionalReads(tensors).add(definition.body);
  return tensors;
}

Expr with_safe_reads(const Program& program, const Definition& definition, const std::set<std::string>& conditional) {
  if (definition.body->kind == NodeKind::LinearAlgebra) return definition.body;
  Replacement known;
  for (const DimDecl& dim : program.dims) {
    if (dim.value && !dim.dynamic) known.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  IndexDomain domain(known);
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
  return SafeReads(program, conditional, std::move(domain)).apply(definition.body);
}

}  // namespace moxie
