#include <algorithm>
#include <ranges>

#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// From about one exponential on, a store and a load per step cost less than a lane of its own.
constexpr double kWorthStoring = 8;

/// A step of fewer elements leaves lanes idle.
constexpr double kFullVector = 16;

bool draws(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Random; });
  return found;
}

class StepSplitter {
 public:
  StepSplitter(Program& known, const Definition& user) : known_(known), user_(user) {}

  Expr run() {
    return rewrite_top_down(user_.body, Scope::of(user_),
                            [this](const Expr& e, const Scope& scope) { return split(e, scope); });
  }

 private:
  /// Sums are not entered: their terms fill lanes.
  std::optional<Expr> split(const Expr& expr, const Scope& scope) {
    const bool is_number = expr->kind == NodeKind::Call && expr->function->result == ResultType::Number;
    if (!is_number && expr->kind != NodeKind::Reduce) return std::nullopt;
    if (is_apart(expr)) {
      if (const auto read = ahead(expr, scope)) return read;
    }
    return expr->kind == NodeKind::Reduce ? std::optional(expr) : std::nullopt;
  }

  bool is_apart(const Expr& expr) const {
    return cost(expr) >= kWorthStoring && expr->depends_on(Symbol::axis(0)) && !draws(expr) &&
           !reads_scan(known_, expr, *user_.scan);
  }

  std::optional<Expr> ahead(const Expr& expr, const Scope& scope) {
    auto part = extracted(expr, scope);
    if (!part) part = extracted(behind_conditions(expr, scope), scope);
    if (!part) return std::nullopt;
    part->definition.line = user_.line;
    known_.definitions.push_back(std::move(part->definition));
    return part->read;
  }

  std::optional<Extraction> extracted(const Expr& expr, const Scope& scope) const {
    return extract(known_, scope, expr, user_.name + ".ahead", scope.dtype);
  }

  /// Where they do not hold, nobody reads the value.
  static Expr behind_conditions(const Expr& expr, const Scope& scope) {
    const auto is_own = [&](const Expr& condition) {
      return std::ranges::all_of(condition->free_symbols, [&](Symbol s) { return s.is_dim() || expr->depends_on(s); });
    };
    std::vector<Expr> own;
    std::ranges::copy_if(scope.conditions, std::back_inserter(own), is_own);
    if (own.empty()) return expr;
    return call("where", {own.size() == 1 ? own[0] : call("and", own), expr, constant(0)});
  }

  Program& known_;
  const Definition& user_;
};

/// Whether the lanes of one step are few.
bool has_narrow_steps(const Definition& definition) {
  const std::vector<AxisDecl> others(definition.axes.begin() + 1, definition.axes.end());
  return assumed_size(others) < kFullVector;
}

}  // namespace

Program split_steps(const Program& program) {
  return split_bodies(program, [](Program& known, const Definition& definition) {
    const bool splits = definition.scan && !definition.recomputed && definition.body->kind != NodeKind::LinearAlgebra &&
                        has_narrow_steps(definition);
    return splits ? StepSplitter(known, definition).run() : definition.body;
  });
}

}  // namespace moxie
