// The part of ExprParser that reads ranges by data: `sum[k in start[i]..start[i+1]](..)`. Such a range is a condition
// on an index that runs through all that it may be: where(start[i] <= k and k < start[i+1], .., 0).
#include <fmt/format.h>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/functions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/text/expr_parser.h"

namespace moxie {

void ExprParser::add_loop(Loops& loops) {
  loops.quotients.emplace_back();
  if (!at_range_by_data()) {
    loops.bindings.push_back(parse_binder(tokens_, program_, names_, Symbol::fresh()));
    return;
  }
  const Token name = tokens_.expect_name("the name of an index");
  names_.check_bindable(program_, name);
  tokens_.expect("in");
  add_data_range(name, loops);
}

/// Whether an end of the range that follows mentions a tensor.
bool ExprParser::at_range_by_data() const {
  if (!tokens_.at_name() || tokens_.peek_second().text != "in") return false;
  const std::size_t start = tokens_.position();
  tokens_.next();
  tokens_.next();
  bool found = false;
  for (int open = 0; !tokens_.at("") && tokens_.peek().kind != TokenKind::Newline; tokens_.next()) {
    if (open == 0 && (tokens_.at(",") || tokens_.at("]"))) break;
    found |= tokens_.at_name() && stands_for_element(tokens_.peek());
    if (tokens_.peek().kind == TokenKind::End) break;
    open += tokens_.at("[") || tokens_.at("(") ? 1 : 0;
    open -= tokens_.at("]") || tokens_.at(")") ? 1 : 0;
  }
  tokens_.seek(start);
  return found;
}

void ExprParser::add_data_range(const Token& name, Loops& loops) {
  const std::vector<Operand> lows = ends_of_range("max", loops.quotients.back());
  tokens_.expect("..", "a range is written low..high");
  const std::vector<Operand> highs = ends_of_range("min", loops.quotients.back());
  Binding loop{std::string(name.text), Symbol::fresh(), {}};
  const IndexDecl* declared = find_index(program_, name.text);
  const Binding* outer = names_.find(name.text);
  if (tokens_.accept("of")) {
    loop.range = Range::extent(parse_affine(tokens_, index_resolver()));
  } else if (outer || declared) {
    loop.range = outer ? outer->range : declared->range;
  } else {
    tokens_.fail<TypeError>(
        name, fmt::format("the range of `{}` is data, and nothing says how far it may reach", name.text),
        fmt::format("declare the index (index {0}:N) or say of how many elements: [{0} in a[i]..a[i+1] of N]",
                    name.text));
  }
  const Operand index{index_value(loop.symbol), std::nullopt};
  for (const Operand& low : lows) loops.conditions.push_back(make_call("<=", {low, index}));
  for (const Operand& high : highs) loops.conditions.push_back(make_call("<", {index, high}));
  loops.bindings.push_back(std::move(loop));
}

/// `start[i]`, or with `max` in the place of `combine`: `max(start[i], 3)`.
std::vector<Operand> ExprParser::ends_of_range(std::string_view combine, Placeholders& quotients) {
  if (!tokens_.at(combine) || tokens_.peek_second().text != "(") return {end_of_range(quotients)};
  tokens_.next();
  tokens_.next();
  std::vector<Operand> ends;
  do ends.push_back(end_of_range(quotients));
  while (tokens_.accept(","));
  tokens_.expect(")");
  return ends;
}

/// A sum of indices, dims and elements of integer tensors.
Operand ExprParser::end_of_range(Placeholders& quotients) {
  const Token at = tokens_.peek();
  Operand end = sum();
  end.expr = quotients.lift(end.expr);
  visit(end.expr, [&](const Expr& e) {
    const bool is_access = e->kind == NodeKind::Access;
    if (is_access && !e->tensor.empty() && !holds_integers(program_.dtype_of(e->tensor)))
      tokens_.fail<TypeError>(at,
                              fmt::format("`{}` holds numbers of dtype {}; the end of a range is an integer", e->tensor,
                                          to_string(program_.dtype_of(e->tensor))),
                              fmt::format("declare it as integers: {}: i32", e->tensor));
    const bool is_integer = is_access || e->kind == NodeKind::IndexValue ||
                            (e->kind == NodeKind::Constant && exact_integer(e->value)) ||
                            (e->kind == NodeKind::Call && keeps_integers(*e->function));
    if (!is_integer)
      tokens_.fail<TypeError>(at, "the end of a range is a sum of indices, dims and elements of integer tensors",
                              "name what is computed: let last[i]: i32 = ..");
  });
  end.affine.reset();
  return end;
}

Operand ExprParser::only_where(const std::vector<Operand>& conditions, Operand operand, double otherwise) {
  if (conditions.empty()) return operand;
  operand.affine.reset();
  return make_call("where", {make_call("and", conditions), std::move(operand), {constant(otherwise), std::nullopt}});
}

}  // namespace moxie
