#include "compiler/diff/shifted_arguments.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/diff/safe_reads.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// Multiply-adds that a definition has to save at each element: storing one and loading it costs a few of them.
constexpr double kWorthADefinition = 64;
/// Functions from here on are worth a look; cheaper ones have steps or constants for slopes.
constexpr int kCostly = 8;

bool is_costly(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->arity == 1 && expr->function->cost >= kCostly;
}

/// What the slope at one of the elements costs: the function, and its argument. Powers with a number are products.
double cost_of(const Expr& call) {
  double cost = 0;
  visit(call, [&](const Expr& e) {
    const bool is_product = is_call(e, "pow") && e->args[1]->kind == NodeKind::Constant;
    cost += e->kind != NodeKind::Call ? 0 : is_product ? 1 : e->function->cost;
  });
  return cost;
}

class ArgumentLifting {
 public:
  ArgumentLifting(const Program& program, const ActiveTensors& active)
      : program_(program), active_(active), builder_(without_definitions(program)) {
    for (const Definition& definition : program.definitions) builder_.reserve(definition.name);
  }

  Program run() {
    for (Definition definition : program_.definitions) {
      if (definition.body->kind != NodeKind::LinearAlgebra && !definition.recomputed && has_costly(definition.body))
        lift_from(definition);
      builder_.add_definition(std::move(definition));
    }
    Program result = builder_.take();
    const std::set<std::string> conditional = lifted_.empty() ? lifted_ : read_under_conditions(result);
    for (Definition& definition : result.definitions) {
      if (lifted_.contains(definition.name)) definition.body = with_safe_reads(result, definition, conditional);
    }
    return result;
  }

 private:
  static Program without_definitions(Program program) {
    program.definitions.clear();
    return program;
  }

  static bool has_costly(const Expr& body) {
    bool found = false;
    visit(body, [&](const Expr& e) { found |= is_costly(e); });
    return found;
  }

  void lift_from(Definition& definition) {
    const OpenDefinition open = open_definition(definition);
    const Expr body = walk(definition, open, open.body);
    if (body != open.body) definition.body = substitute(body, closing_of(open));
  }

  Expr walk(const Definition& definition, const OpenDefinition& open, const Expr& expr) {
    if (is_call(expr, "f32") || is_call(expr, "f64")) return expr;  // other precisions stay what they are
    if (is_costly(expr) && reads_several(expr)) {
      if (const auto read = lifted(definition, open, expr->args[0])) return call(*expr->function, {*read});
    }
    return map_children(expr, [&](const Expr& child) { return walk(definition, open, child); });
  }

  bool reads_several(const Expr& call) const {
    if (call->gathers) return false;
    std::map<std::string, std::set<const Node*>> elements;
    visit(call, [&](const Expr& e) {
      if (e->kind == NodeKind::Access && active_.contains(e->tensor)) elements[e->tensor].insert(e.get());
    });
    std::size_t most = 0;
    for (const auto& [tensor, nodes] : elements) most = std::max(most, nodes.size());
    return most > 1 && static_cast<double>(most - 1) * cost_of(call) >= kWorthADefinition;
  }

  /// The argument as a definition over those axes that it depends on, and the steps of its scan. Reductions inside and
  /// around it, whose indices are no axes, leave it where it is.
  std::optional<Expr> lifted(const Definition& definition, const OpenDefinition& open, const Expr& argument) {
    if (argument->height > 0) return std::nullopt;
    std::vector<Symbol> variables;
    for (const Symbol variable : open.domain.variables) {
      const bool is_step = definition.scan && variable == open.domain.variables.front();
      if (is_step || argument->depends_on(variable)) variables.push_back(variable);
    }
    const auto is_axis = [&](Symbol symbol) {
      return symbol.is_dim() || std::ranges::find(variables, symbol) != variables.end();
    };
    if (!std::ranges::all_of(argument->free_symbols, is_axis)) return std::nullopt;
    const auto boxes = boxes_of(open.domain, variables);
    if (!boxes) return std::nullopt;
    const Expr read = builder_.add_let(
        {definition.name + ".argument", computed_dtype(definition.dtype), definition.line, definition.scan},
        as_axes(builder_, variables, *boxes, names_of(definition, open)), argument);
    lifted_.insert(read->tensor);
    return read;
  }

  const Program& program_;
  const ActiveTensors& active_;
  ProgramBuilder builder_;
  std::set<std::string> lifted_;
};

}  // namespace

Program lift_shifted_arguments(const Program& program, const ActiveTensors& active) {
  return ArgumentLifting(program, active).run();
}

}  // namespace moxie
