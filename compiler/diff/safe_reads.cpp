#include "compiler/diff/safe_reads.h"

#include <map>

#include "compiler/ir/functions.h"
#include "compiler/ir/index_domain.h"

namespace moxie {
namespace {

/// The comparisons that `access`, with what its subscripts read, needs and `domain` refutes.
std::vector<Expr> missing_tests(const Program& program, const Expr& access, const IndexDomain& domain) {
  std::vector<Expr> tests;
  const auto require = [&](const Affine& high, const Affine& low) {
    if (domain.prove_nonnegative(high - low) == Proof::Fails)
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
    const Range range = definition ? definition->axes[k].range.substitute(element) : Range::extent(shape[k]);
    for (const Bound& low : range.lows) require(access->subscripts[k] * low.divisor, low.value);
    for (const Bound& high : range.highs) require(high.value, access->subscripts[k] * high.divisor);
  }
  return tests;
}

/// Guards the reads of one place: below the same loops and conditions.
class SafeReads {
 public:
  SafeReads(const Program& program, IndexDomain domain) : program_(program), domain_(std::move(domain)) {}

  Expr apply(const Expr& expr) {
    const auto [entry, is_new] = done_.try_emplace(expr.get());
    if (is_new) entry->second = safe(expr);
    return entry->second;
  }

 private:
  Expr safe(const Expr& expr) {
    if (expr->kind == NodeKind::Access) {
      const std::vector<Expr> tests = missing_tests(program_, expr, domain_);
      if (tests.empty()) return expr;
      return call("where", {tests.size() == 1 ? tests[0] : call("and", tests), expr, 0});
    }
    if (expr->kind == NodeKind::Reduce) {
      IndexDomain inner = domain_;
      inner.add_range(Symbol::bound(expr->height), expr->range);
      SafeReads reads(program_, std::move(inner));
      std::vector<Expr> inside;
      for (const Expr& arg : expr->args) inside.push_back(reads.apply(arg));
      return with_args(expr, std::move(inside));
    }
    std::vector<Expr> args;
    const bool branches = expr->kind == NodeKind::Call && expr->function->name == "where";
    for (std::size_t k = 0; k < expr->args.size(); ++k) {
      const bool inside = branches && k > 0;
      args.push_back(inside ? SafeReads(program_, domain_.where(expr->args[0], k == 1)).apply(expr->args[k])
                            : apply(expr->args[k]));
    }
    return with_args(expr, std::move(args));
  }

  const Program& program_;
  IndexDomain domain_;
  std::map<const Node*, Expr> done_;  // nodes of the body, which the caller holds
};

}  // namespace

Expr with_safe_reads(const Program& program, const Definition& definition) {
  if (definition.body->kind == NodeKind::LinearAlgebra) return definition.body;
  Replacement known;
  for (const DimDecl& dim : program.dims) {
    if (dim.value && !dim.dynamic) known.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  IndexDomain domain(known);
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
  return SafeReads(program, std::move(domain)).apply(definition.body);
}

}  // namespace moxie
