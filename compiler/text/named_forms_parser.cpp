// The part of ExprParser that reads forms made of others: means, softmax, tables of numbers, singular vectors; and
// sorts. Their names are not taken: `mean[i](e)` is told from a tensor `mean[i]` by what follows the bracket.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <ranges>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/index_domain.h"
#include "compiler/program/integer_element.h"
#include "compiler/text/expr_parser.h"

namespace moxie {
namespace {

constexpr std::size_t kMaxTable = 256;

Operand number(const Affine& value) { return {number_of(value), std::nullopt}; }

/// The element of a row that a definition names, under the condition of the definition's choice with -inf, if that is
/// what it is: `let s[i,j] = where(j <= i, e, -inf)` is a mask as well as its body.
Expr with_named_mask(const Program& program, const Expr& element) {
  if (element->kind != NodeKind::Access || reads_by_value(element)) return element;
  const Definition* named = program.find_definition(element->tensor);
  const bool is_masked = named && !named->scan && is_call(named->body, "where") && is_left_out(named->body->args[2]);
  if (!is_masked) return element;
  return call("where", {substitute(named->body->args[0], axes_by_subscripts(element)), element, named->body->args[2]});
}

}  // namespace

struct ExprParser::NamedForm {
  std::string_view name;
  Operand (ExprParser::*read)(const Token&);
};

const ExprParser::NamedForm* ExprParser::find_named_form(std::string_view name) {
  static constexpr std::array<NamedForm, 10> forms = {{{"mean", &ExprParser::mean},
                                                       {"variance", &ExprParser::variance},
                                                       {"softmax", &ExprParser::softmax},
                                                       {"log_softmax", &ExprParser::softmax},
                                                       {"sort", &ExprParser::sorted},
                                                       {"argsort", &ExprParser::sorted},
                                                       {"svd_u", &ExprParser::singular_vectors},
                                                       {"svd_v", &ExprParser::singular_vectors},
                                                       {"any", &ExprParser::any_or_all},
                                                       {"all", &ExprParser::any_or_all}}};
  const auto form = std::ranges::find(forms, name, &NamedForm::name);
  return form == forms.end() ? nullptr : form;
}

std::optional<Operand> ExprParser::named_form(const Token& name) {
  const NamedForm* form = find_named_form(name.text);
  if (!form || !tokens_.at_call_after_brackets()) return std::nullopt;
  Operand result = (this->*form->read)(name);
  check_size(name, result);
  return result;
}

Operand ExprParser::mean(const Token&) {
  const Loops loops = binders("write mean[i](...) or mean[i in low..high](...)");
  return mean_of(loops, looped(loops));
}

/// The mean of the squared deviations from the mean.
Operand ExprParser::variance(const Token&) {
  const Loops loops = binders("write variance[i](...) or variance[i in low..high](...)");
  const Operand element = looped(loops);
  return mean_of(loops, make_call("squared_deviation", {element, mean_of(loops, element)}));
}

/// The sum divided by the number of iterations: NaN of none.
Operand ExprParser::mean_of(const Loops& loops, Operand element) {
  Operand total = reduction_of(ReduceKind::Sum, loops, std::move(element));
  std::vector<std::pair<Symbol, Range>> ranges;
  for (const Binding& loop : loops.bindings) ranges.emplace_back(loop.symbol, loop.range);
  Operand count{count_iterations(ranges), std::nullopt, static_cast<int>(ranges.size()) + 1};
  if (!loops.conditions.empty()) {
    count = only_where(loops.conditions, {constant(1), std::nullopt}, 0);
    count.expr = reduced(ReduceKind::Sum, loops, count.expr);
    count.depth += static_cast<int>(ranges.size());
  }
  return make_call("/", {std::move(total), std::move(count)});
}

/// Whether the largest (smallest) of the truth values as numbers is 1: without iterations it is infinite, so that `any`
/// is false and `all` is true.
Operand ExprParser::any_or_all(const Token& name) {
  const Loops loops = binders(fmt::format("write {0}[i](...) or {0}[i in low..high](...)", name.text));
  for (const Binding& loop : loops.bindings) names_.bind(loop);
  tokens_.expect("(", "the condition stands in parentheses");
  const Token at = tokens_.peek();
  Operand condition = disjunction();
  tokens_.expect(")");
  names_.unbind(loops.bindings.size());
  condition = as_condition(std::move(condition));
  if (condition.expr->kind != NodeKind::Call || condition.expr->function->result != ResultType::Truth) {
    tokens_.fail<TypeError>(at, fmt::format("`{}` takes a condition, and this is a number", name.text),
                            fmt::format("compare it: {}[i](x[i] != 0)", name.text));
  }
  condition.affine.reset();
  Operand number = choice({std::move(condition), {constant(1), std::nullopt}, {constant(0), std::nullopt}});
  const ReduceKind kind = name.text == "any" ? ReduceKind::Max : ReduceKind::Min;
  number = only_where(loops.conditions, std::move(number), neutral_value(kind));
  number.expr = reduced(kind, loops, number.expr);
  number.depth += static_cast<int>(loops.bindings.size());
  tokens_.check_depth(number.depth);
  return make_call(">", {std::move(number), {constant(0), std::nullopt}});
}

ExprParser::RowForm ExprParser::row_form(const Token& name) {
  tokens_.expect("[");
  const Token index = tokens_.peek();
  RowForm row{index, loop_or_axis(), {}, {}};
  tokens_.expect("]", fmt::format("`{}` is over one index", name.text));
  if (const Binding* axis = names_.find(row.loop().name)) row.outer = axis->symbol;
  names_.bind(row.loop());
  tokens_.expect("(");
  row.body = disjunction();
  names_.unbind(1);
  row.body.affine.reset();
  return row;
}

/// The element that follows the call, or else the index of that name around it.
Affine ExprParser::row_element(const Token& name, const RowForm& row, Placeholders& placeholders,
                               std::vector<Expr>* values) {
  std::vector<Affine> element;
  if (tokens_.accept("[")) {
    const IntegerForms forms = integer_forms(placeholders);
    element =
        parse_affine_list(tokens_, values ? subscript_resolver(*values, &placeholders) : index_resolver(), &forms);
  } else if (row.outer) {
    element = {*row.outer};
  }
  if (element.size() == 1) return element[0];
  tokens_.fail<TypeError>(
      row.index, fmt::format("`{}` over `{}` has one subscript, but no element is chosen", name.text, row.index.text),
      fmt::format("make `{1}` an axis, or choose an element: {0}[{1}](...)[0]", name.text, row.index.text));
}

/// exp(e - logsumexp[k](e)), at the axis k or at the element that follows: nothing overflows, and what a mask leaves
/// out is 0.
Operand ExprParser::softmax(const Token& name) {
  RowForm row = row_form(name);
  tokens_.expect(")");
  const Binding& loop = row.loop();
  row.body = only_where(row.loops.conditions, std::move(row.body), -std::numeric_limits<double>::infinity());
  Placeholders placeholders;
  IntegerElement element;
  element.affine = row_element(name, row, placeholders, &element.values);
  Operand total = row.body;
  total.expr = reduce(ReduceKind::LogSumExp, loop.symbol, loop.range, row.body.expr);
  total.depth += 1;
  const std::optional<Expr> at_element = element.values.empty()
                                             ? substitute(row.body.expr, {{loop.symbol, element.affine}})
                                             : substitute_element(row.body.expr, loop.symbol, element);
  if (!at_element) {
    tokens_.fail<TypeError>(row.index,
                            fmt::format("`{}` has no element by data here: `{}` moves a range, a draw or a matrix",
                                        name.text, row.index.text),
                            fmt::format("name the row: let p[s,k] = {}[k](..), and read p[s,label[s]]", name.text));
  }
  const Expr of_softmax = softmax_element(with_named_mask(program_, *at_element), total.expr);
  row.body.expr = *at_element;
  Operand result = make_call("+", {std::move(row.body), make_call("neg", {std::move(total)})});
  if (name.text == "softmax") {
    result = make_call("exp", {std::move(result)});
    result.expr = of_softmax;  // as deep and as large, but for the choice of a mask
  }
  result.expr = row.loops.quotients[0].bind(result.expr);
  return bind(name, placeholders, std::move(result));
}

/// The number of elements that are sorted: all of a row.
Affine ExprParser::row_size(const Token& name, const RowForm& row) const {
  const auto size = row.loop().range.as_extent();
  if (size && row.loops.conditions.empty()) return *size;
  tokens_.fail<ShapeError>(
      row.index,
      fmt::format("`{}` sorts whole rows, but `{}` does not run from 0 to an extent", name.text, row.index.text),
      "declare an index for the elements that are sorted, and subscript with a sum: index j:J, sort[j](x[j+1])");
}

Operand ExprParser::sorted(const Token& name) {
  RowForm row = row_form(name);
  tokens_.expect(")");
  Placeholders placeholders;
  const Affine element = row_element(name, row, placeholders, nullptr);
  const auto kind =
      name.text == to_string(LinearAlgebraKind::Sort) ? LinearAlgebraKind::Sort : LinearAlgebraKind::ArgSort;
  Operand result = std::move(row.body);
  tokens_.check_depth(++result.depth);
  result.expr = sorted_row(kind, row.loop().symbol, row_size(name, row), result.expr, element);
  return bind(name, placeholders, std::move(result));
}

/// U, or V, which stands below it.
Operand ExprParser::singular_vectors(const Token& name) {
  Operand result = linear_algebra(LinearAlgebraKind::Svd);
  const Affine& row = result.expr->subscripts[0];
  if (name.text == "svd_v")
    result.expr = with_element(result.expr, {result.expr->size.rows + row, result.expr->subscripts[1]});
  return result;
}

/// An index for a loop over its range; of an index in scope, over its range too, or over a part of it.
ExprParser::Loops ExprParser::loop_or_axis() {
  const Token name = tokens_.peek();
  const Binding* outer = tokens_.at_name() ? names_.find(name.text) : nullptr;
  Loops loops;
  if (!outer) {
    add_loop(loops);
    return loops;
  }
  tokens_.next();
  loops.quotients.emplace_back();
  if (tokens_.accept("in"))
    add_data_range(name, loops);
  else
    loops.bindings.push_back({outer->name, Symbol::fresh(), outer->range});
  return loops;
}

/// `[0.1, 0.2, 0.7][k]`; NaN beyond the table.
Operand ExprParser::table(const Token& opening) {
  Placeholders placeholders;
  Operand element = table_element(opening, placeholders);
  return bind(opening, placeholders, std::move(element));
}

/// Its subscript may mention `placeholders`.
Operand ExprParser::table_element(const Token& opening, Placeholders& placeholders) {
  std::vector<Operand> elements;
  do elements.push_back(disjunction());
  while (tokens_.accept(","));
  tokens_.expect("]");
  if (!tokens_.accept("["))
    tokens_.fail<ParseError>(opening, "a table of numbers needs a subscript", "write [0.1, 0.2, 0.7][k]");
  const Token first = tokens_.peek();
  const IntegerForms forms = integer_forms(placeholders);
  const std::vector<Affine> subscripts = parse_affine_list(tokens_, index_resolver(), &forms);
  if (subscripts.size() != 1)
    tokens_.fail<ShapeError>(first, fmt::format("a table has one subscript, but {} stand here", subscripts.size()));
  if (elements.size() > kMaxTable)
    tokens_.fail<ShapeError>(opening,
                             fmt::format("this table has {} elements, more than {}", elements.size(), kMaxTable),
                             "make it an input");
  const Affine& at = subscripts[0];
  if (at.is_constant() && (at.constant() < 0 || at.constant() >= static_cast<std::int64_t>(elements.size())))
    tokens_.fail<ShapeError>(
        first, fmt::format("subscript {} leaves the table, which has {} elements", at.constant(), elements.size()));
  for (Operand& element : elements) element.affine.reset();
  if (at.is_constant()) return elements[static_cast<std::size_t>(at.constant())];
  const auto size = static_cast<std::int64_t>(elements.size());
  const bool is_inside = is_inside_table(at, placeholders, elements.size());
  Operand element = choose_element(elements, 0, at);
  if (is_inside) return element;
  Operand is_in =
      make_call("and", {make_call(">=", {number(at), number(0)}), make_call("<", {number(at), number(size)})});
  const Operand outside{constant(std::numeric_limits<double>::quiet_NaN()), std::nullopt};
  return make_call("where", {std::move(is_in), std::move(element), outside});
}

/// Whether the subscript stays inside 0 <= at < size, by the ranges of the indices in scope.
bool ExprParser::is_inside_table(const Affine& at, const Placeholders& placeholders, std::size_t size) const {
  const IndexDomain domain = indices_in_scope(placeholders);
  const Affine last(static_cast<std::int64_t>(size) - 1);
  return domain.prove_nonnegative(at) == Proof::Holds && domain.prove_nonnegative(last - at) == Proof::Holds;
}

/// A tree of choices, so that a table of n elements nests log n deep.
Operand ExprParser::choose_element(std::span<Operand> elements, std::int64_t first, const Affine& at) {
  if (elements.size() == 1) return std::move(elements[0]);
  const std::size_t half = elements.size() / 2;
  const auto middle = first + static_cast<std::int64_t>(half);
  Operand is_before = make_call("<", {number(at), number(middle)});
  Operand low = choose_element(elements.first(half), first, at);
  Operand high = choose_element(elements.subspan(half), middle, at);
  return make_call("where", {std::move(is_before), std::move(low), std::move(high)});
}

}  // namespace moxie
