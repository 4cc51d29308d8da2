// ExprParser: subscripts, and the integers that stand in them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/expression/functions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/text/expr_parser.h"

namespace moxie {

Operand ExprParser::access(const Token& name) {
  Placeholders placeholders;
  const Expr read = element(name, placeholders);
  Operand result = bind(name, placeholders, {read, std::nullopt});
  result.is_truth = !read->tensor.empty() && program_.dtype_of(read->tensor) == DType::boolean;
  return result;
}

Operand ExprParser::bind(const Token& at, const Placeholders& placeholders, Operand operand) {
  if (placeholders.empty()) return operand;
  operand.depth += placeholders.quotients() + placeholders.choices();
  tokens_.check_depth(operand.depth);
  const std::optional<Expr> bound = placeholders.bind(operand.expr, kMaxSize);
  operand.size = bound ? written_nodes(*bound) : std::numeric_limits<double>::infinity();
  check_size(at, operand);
  operand.expr = *bound;
  if (placeholders.choices() > 0) operand.expr = without_dead_branches(operand.expr, indices_in_scope(placeholders));
  return operand;
}

Expr ExprParser::element(const Token& name, Placeholders& placeholders) {
  if (const Argument* argument = names_.find_argument(name.text)) return element_of(name, *argument, placeholders);
  if (!is_tensor(name.text)) {
    if (names_.find(name.text) || program_.find_dim(name.text)) {
      tokens_.fail<TypeError>(name, fmt::format("`{}` is a number, not a tensor, and takes no subscripts", name.text));
    }
    names_.fail_unknown(program_, name);
  }
  tokens_.expect("[");
  std::vector<Expr> values;
  const IntegerForms forms = integer_forms(placeholders);
  std::vector<Affine> subscripts = parse_affine_list(tokens_, subscript_resolver(values, &placeholders), &forms);
  const std::vector<Affine> shape = program_.shape_of(name.text);
  if (subscripts.size() != shape.size()) {
    tokens_.fail<ShapeError>(name,
                             fmt::format("`{}` has the shape {}, but {} subscript(s) were given", name.text,
                                         shape_text(shape), subscripts.size()),
                             "give one subscript per axis");
  }
  return tensor_access(std::string(name.text), std::move(subscripts), std::move(values));
}

IntegerForms ExprParser::integer_forms(Placeholders& placeholders) {
  return {[this, &placeholders](std::string_view mark, const Affine& value, const Affine& divisor) {
            return divided(mark, value, divisor, placeholders);
          },
          [this, &placeholders](const Token& name) { return chosen_integer(name, placeholders); },
          [this, &placeholders](const Token& opening) { return integer_of_table(opening, placeholders); }};
}

/// `[0, 1, 0, -1][k]`
Affine ExprParser::integer_of_table(const Token& opening, Placeholders& placeholders) {
  const std::optional<Affine> integer = affine_of(table_element(opening, placeholders).expr, nullptr, &placeholders);
  if (!integer)
    tokens_.fail<TypeError>(opening, "a table in a subscript holds integers, and its own subscript stays inside of it",
                            "name another integer: let j[s]: i32 = .., and read x[j[s]]");
  return *integer;
}

/// A remainder by dims that takes few values is a choice, which compares indices, where a quotient is searched for. By
/// a number it is a quotient: as such it is printed, and read again.
std::optional<Affine> ExprParser::divided(std::string_view mark, const Affine& value, const Affine& divisor,
                                          Placeholders& placeholders) const {
  if (placeholders.may_be_element(value)) {
    tokens_.fail<TypeError>(tokens_.peek(), "an element of a tensor cannot be divided in a subscript",
                            "name the quotient: let half[s]: i32 = idx[s]//2");
  }
  const std::optional<std::int64_t> number = divisor_value(divisor);
  if (!divisor.is_constant() && (mark == "%" || !number)) {
    if (const auto wrapped = wrapped_by(mark, value, divisor, indices_in_scope(placeholders), placeholders))
      return wrapped;
  }
  return number ? std::optional(divided_by(mark, value, *number, placeholders)) : std::nullopt;
}

/// The ranges of the indices in scope. Dims have the values that the text gives, any value otherwise.
IndexDomain ExprParser::indices_in_scope(const Placeholders& placeholders) const {
  Replacement known;
  for (const DimDecl& dim : program_.dims) {
    if (dim.value && !dim.dynamic) known.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  IndexDomain domain(std::move(known));
  for (const Binding& binding : names_.whole_scope()) domain.add_range(binding.symbol, binding.range);
  placeholders.add_to(domain);
  return domain;
}

/// `min(i+1, N-1)`, `where(i == 0, 0, i-1)`, or a function of the text that gives such.
std::optional<Affine> ExprParser::chosen_integer(const Token& name, Placeholders& placeholders) {
  const ScalarFunction* function = find_function(name.text);
  if (!names_.find_function(name.text) && (!function || !chooses_integers(*function))) return std::nullopt;
  const std::optional<Affine> integer =
      affine_of(with_products_of_dims(function_call(name).expr), nullptr, &placeholders);
  if (!integer) {
    tokens_.fail<TypeError>(
        name, fmt::format("`{}` computes no index here", name.text),
        fmt::format("in subscripts min, max, clamp, abs and where take indices, which are divided by "
                    "`//`, and elements of integer tensors; name another integer: let j[s]: i32 = "
                    "{}(..), and read x[j[s]]",
                    name.text));
  }
  return integer;
}

/// The value of a divisor: an integer, or dims that have values in the text. In the body of a function that is checked
/// without arguments, parameters may stand for anything.
std::optional<std::int64_t> ExprParser::divisor_value(const Affine& divisor) const {
  if (names_.functions() && !names_.functions()->being_defined.empty() && !divisor.is_constant()) return 1;
  return value_in_text(program_, divisor);
}

NameResolver ExprParser::subscript_resolver(std::vector<Expr>& values, Placeholders* placeholders) {
  const auto resolve = [this, &values, placeholders](const Token& name) -> Affine {
    if (!stands_for_element(name)) {
      refuse_computed_subscript(name);
      if (const auto integer = argument_integer(name, values, placeholders)) return *integer;
      return names_.resolve_index(program_, name);
    }
    values.push_back(integer_element(name, placeholders));
    return Symbol::value(static_cast<std::uint32_t>(values.size() - 1));
  };
  return {resolve, [this](const Affine& dims) { return divisor_value(dims); }};
}

/// Whether it is a tensor, or a parameter that is one or an integer element of one.
bool ExprParser::stands_for_element(const Token& name) const {
  const Argument* argument = names_.find_argument(name.text);
  if (!argument) return !names_.find(name.text) && is_tensor(name.text);
  const Expr& expr = argument->value.expr;
  return argument->is_tensor || (expr && !argument->value.affine && expr->kind == NodeKind::Access &&
                                 holds_integers(program_.dtype_of(expr->tensor)));
}

/// What a parameter stands for that is an integer, but not affine: `(a+1)%3`, `min(i+1, N-1)`, `idx[s]+1`.
std::optional<Affine> ExprParser::argument_integer(const Token& name, std::vector<Expr>& values,
                                                   Placeholders* placeholders) const {
  const Argument* argument = names_.find(name.text) ? nullptr : names_.find_argument(name.text);
  if (!argument || !placeholders || argument->is_tensor || argument->value.affine) return std::nullopt;
  std::vector<Expr> elements = values;
  const std::optional<Affine> integer = affine_of(argument->value.expr, &elements, placeholders);
  const auto is_integer = [&](const Expr& element) {
    return element->tensor.empty() || holds_integers(program_.dtype_of(element->tensor));
  };
  if (!integer || !std::ranges::all_of(elements, is_integer)) return std::nullopt;
  values = std::move(elements);
  return integer;
}

Expr ExprParser::integer_element(const Token& name, Placeholders* placeholders) {
  const Argument* argument = names_.find_argument(name.text);
  const std::string tensor = argument ? argument->value.expr->tensor : std::string(name.text);
  const bool is_known = !tensor.empty();  // which tensor a parameter is, calls of the function say
  if (is_known && !holds_integers(program_.dtype_of(tensor))) {
    tokens_.fail<TypeError>(name,
                            fmt::format("`{}` holds numbers of dtype {}; a subscript is an integer", tensor,
                                        to_string(program_.dtype_of(tensor))),
                            fmt::format("declare it as integers: {}: i32", tensor));
  }
  if (!tokens_.at("[")) return bare_name(name).expr;
  Placeholders own;
  const Token opening = tokens_.peek();
  const Expr read = element(name, placeholders ? *placeholders : own);
  if (!own.empty())
    tokens_.fail<TypeError>(opening, "no quotient may stand here", "name the element: let j[s]: i32 = idx[s/2]");
  return read;
}

/// `i//2`, `i%2`
Operand ExprParser::divided_value(const Token& mark, Operand value) {
  Placeholders placeholders;
  const std::optional<Affine> index = affine_of(with_products_of_dims(value.expr), nullptr, &placeholders);
  const Token at = tokens_.peek();
  Operand by = unary();
  const std::optional<Affine> given = affine_of(by.expr);
  if (!index || !given) return divided_number(mark, std::move(value), std::move(by));
  const std::optional<Affine> result = divided(mark.text, *index, *given, placeholders);
  if (!result) fail_divisor(tokens_, at);
  return bind(mark, placeholders, {number_of(*result), std::nullopt, value.depth + 1, value.size + 1});
}

/// floor(a/b) and a - b*floor(a/b), of elements of tensors and of what is computed.
Operand ExprParser::divided_number(const Token& mark, Operand value, Operand by) {
  Operand quotient = make_call("floor", {make_call("/", {value, by})});
  if (mark.text == "//") return quotient;
  Operand multiple = make_call("*", {std::move(by), std::move(quotient)});
  Operand result = make_call("+", {std::move(value), make_call("neg", {std::move(multiple)})});
  check_size(mark, result);
  return result;
}

}  // namespace moxie
