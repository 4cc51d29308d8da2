#include "compiler/text/expr_parser.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/identifiers.h"
#include "compiler/program/placeholders.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numbers>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/text/foreign_words.h"

namespace moxie {
namespace {

constexpr std::array<std::string_view, 6> kComparisonSymbols = {"<", "<=", ">", ">=", "==", "!="};

/// The sum or product of operands that are all affine, if it is affine and still mentions an index or dim.
std::optional<Affine> fold_sum(const std::vector<Operand>& operands) {
  Affine sum;
  for (const Operand& operand : operands) {
    if (!operand.affine) return std::nullopt;
    sum += *operand.affine;
  }
  return sum.is_constant() ? std::nullopt : std::optional(sum);
}

/// The product of operands that are all affine, if it is affine and still mentions an index or dim. As in subscripts,
/// dims that have values in the text multiply an index, or another dim, as the integers do, so that a guard can say
/// what a subscript does.
std::optional<Affine> fold_product(const Program& program, const std::vector<Operand>& operands) {
  const auto mentions_index = [](const Operand& operand) {
    return operand.affine && !mentions_only_dims(*operand.affine);
  };
  const auto mentions_dim = [](const Operand& operand) { return operand.affine && !operand.affine->is_constant(); };
  const bool multiplies_symbols =
      std::ranges::any_of(operands, mentions_index) || std::ranges::count_if(operands, mentions_dim) > 1;
  Affine product(1);
  for (const Operand& operand : operands) {
    if (!operand.affine) return std::nullopt;
    Affine factor = *operand.affine;
    if (multiplies_symbols && !factor.is_constant() && mentions_only_dims(factor)) {
      if (const std::optional<std::int64_t> value = value_in_text(program, factor)) factor = Affine(*value);
    }
    if (!product.is_constant() && !factor.is_constant()) return std::nullopt;
    product = product.is_constant() ? factor * product.constant() : product * factor.constant();
  }
  return product.is_constant() ? std::nullopt : std::optional(product);
}

template <class Kind>
std::optional<Kind> kind_named(std::string_view name, Kind last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name == to_string(static_cast<Kind>(i))) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

/// The functions that are called by name: others are written as operators.
std::vector<std::string> function_names() {
  constexpr std::array<std::string_view, 5> operators = {"neg", "pow", "and", "or", "not"};
  std::vector<std::string> names;
  for (const ScalarFunction& row : scalar_functions()) {
    if (is_identifier(row.name) && std::ranges::find(operators, row.name) == operators.end())
      names.emplace_back(row.name);
  }
  return names;
}

}  // namespace

Expr ExprParser::with_products_of_dims(const Expr& expr) const {
  const Expr result = map_children(expr, [this](const Expr& child) { return with_products_of_dims(child); });
  if (!is_call(result, "*")) return result;
  std::vector<Operand> factors;
  for (const Expr& arg : result->args) factors.push_back({arg, affine_of(arg)});
  const std::optional<Affine> product = fold_product(program_, factors);
  return product ? index_value(*product) : result;
}

NameResolver ExprParser::index_resolver() const {
  return {[this](const Token& name) { return names_.resolve_index(program_, name); },
          [this](const Affine& dims) { return divisor_value(dims); }};
}

Operand ExprParser::make_call(std::string_view function, std::vector<Operand> args) {
  Operand result;
  std::vector<Expr> exprs;
  const ScalarFunction* row = find_function(function);
  for (const Operand& arg : args) {
    result.depth = std::max(result.depth, arg.depth + 1);
    result.size += arg.size;
    exprs.push_back(row && wants_truth(*row, exprs.size()) ? as_condition(arg).expr : arg.expr);
  }
  tokens_.check_depth(result.depth);
  result.expr = call(function, std::move(exprs));
  return result;
}

/// An element of a bool tensor as the condition that it is 1; another expression stays what it is.
Operand ExprParser::as_condition(Operand operand) const {
  const Expr& expr = operand.expr;
  const bool is_element =
      expr->kind == NodeKind::Access && !expr->tensor.empty() && program_.dtype_of(expr->tensor) == DType::boolean;
  if (is_element || operand.is_truth) operand.expr = call("!=", {expr, constant(0)});
  operand.is_truth = false;
  return operand;
}

Operand ExprParser::make_chain(std::string_view function, std::vector<Operand> args,
                               const std::optional<Affine>& folded) {
  if (args.size() == 1) return std::move(args[0]);
  if (folded) return {index_value(*folded), folded};
  return make_call(function, std::move(args));
}

Operand ExprParser::disjunction() {
  const TokenStream::Nesting nesting(tokens_);
  std::vector<Operand> args = {conjunction()};
  while (tokens_.accept("or")) args.push_back(conjunction());
  return make_chain("or", std::move(args), std::nullopt);
}

Operand ExprParser::conjunction() {
  std::vector<Operand> args = {negation()};
  while (tokens_.accept("and")) args.push_back(negation());
  return make_chain("and", std::move(args), std::nullopt);
}

Operand ExprParser::negation() {
  if (!tokens_.accept("not")) return comparison();
  const TokenStream::Nesting nesting(tokens_);
  return make_call("not", {negation()});
}

Operand ExprParser::comparison() {
  const auto at_comparison = [&] {
    return std::ranges::any_of(kComparisonSymbols, [&](auto mark) { return tokens_.at(mark); });
  };
  Operand left = sum();
  if (!at_comparison()) return left;
  const Token mark = tokens_.next();
  Operand result = make_call(mark.text, {std::move(left), sum()});
  if (at_comparison()) tokens_.fail<ParseError>(tokens_.peek(), "comparisons do not chain", "write a < b and b < c");
  return result;
}

Operand ExprParser::sum() {
  std::vector<Operand> terms = {product()};
  while (tokens_.at("+") || tokens_.at("-")) {
    const bool negative = tokens_.next().text == "-";
    Operand term = product();
    if (negative) {
      const std::optional<Affine> affine = term.affine;
      term = make_call("neg", {std::move(term)});
      if (affine) term.affine = -*affine;
    }
    terms.push_back(std::move(term));
  }
  const std::optional<Affine> folded = fold_sum(terms);
  return make_chain("+", std::move(terms), folded);
}

Operand ExprParser::product() {
  std::vector<Operand> factors = {unary()};
  const auto collapse = [&] {
    const std::optional<Affine> folded = fold_product(program_, factors);
    return make_chain("*", std::move(factors), folded);
  };
  while (true) {
    const Token mark = tokens_.peek();
    if (tokens_.accept("*")) {
      if (tokens_.at("*") && tokens_.peek().offset == mark.offset + 1)
        tokens_.fail<ParseError>(mark, "`**` is no operator", "a power is written x^2");
      factors.push_back(unary());
    } else if (tokens_.accept("/")) {
      Operand numerator = collapse();
      Operand quotient = make_call("/", {std::move(numerator), unary()});
      factors = {std::move(quotient)};
    } else if (tokens_.accept("//") || tokens_.accept("%")) {
      factors = {divided_value(mark, collapse())};
    } else {
      return collapse();
    }
  }
}

std::optional<double> ExprParser::literal() const {
  const Token& token = tokens_.peek();
  if (token.text == "inf") return std::numeric_limits<double>::infinity();
  if (token.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (token.kind != TokenKind::Integer && token.kind != TokenKind::Number) return std::nullopt;
  double value = 0;
  const auto [stop, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (error != std::errc())
    tokens_.fail<ParseError>(token, "this number does not fit double precision", "its size is 5e-324 to 1.8e308");
  return value;
}

/// A minus directly before a number that is no base of a power makes a negative number; before anything else it is the
/// function neg.
Operand ExprParser::unary() {
  const TokenStream::Nesting nesting(tokens_);
  if (!tokens_.accept("-")) return power();
  if (const std::optional<double> value = literal(); value && tokens_.peek_second().text != "^") {
    Operand number = primary();
    number.expr = constant(-*value);
    if (number.affine) number.affine = -*number.affine;
    return number;
  }
  Operand operand = unary();
  if (operand.affine && !operand.affine->is_constant()) return {index_value(-*operand.affine), -*operand.affine};
  return make_call("neg", {std::move(operand)});
}

Operand ExprParser::power() {
  Operand base = primary();
  if (!tokens_.accept("^")) return base;
  return make_call("pow", {std::move(base), unary()});
}

Operand ExprParser::primary() {
  if (const std::optional<double> value = literal()) {
    const Token token = tokens_.next();
    Operand number{constant(*value), std::nullopt};
    const auto integer = token.kind == TokenKind::Integer ? integer_value(token) : std::nullopt;
    if (integer && *integer <= kMaxExactInteger) number.affine = *integer;
    return number;
  }
  if (tokens_.at_name()) return named();
  if (tokens_.at("[")) return table(tokens_.next());
  if (!tokens_.accept("(")) tokens_.fail_expected("an expression");
  Operand inner = disjunction();
  tokens_.expect(")");
  inner.affine.reset();
  return inner;
}

Operand ExprParser::named() {
  const Token name = tokens_.next();
  const bool called = tokens_.at("(");
  if (called && name.text == to_string(RandomKind::Normal)) return random(name, RandomKind::Normal);
  if (called && name.text == to_string(RandomKind::Uniform)) return random(name, RandomKind::Uniform);
  if (called) return function_call(name);
  if (!tokens_.at("[")) return bare_name(name);
  if (std::optional<Operand> form = named_form(name)) return *form;
  if (std::optional<Operand> reduced = defined_reduction(name)) return *reduced;
  if (const auto kind = kind_named(name.text, kLastReduceKind)) return reduction(*kind);
  if (const auto kind = kind_named(name.text, kLastAlgebraKind); kind && !sorts_row(*kind))
    return linear_algebra(*kind);
  return access(name);
}

/// `x[argmax[k](l[k])]`, `x[floor(u)]`
void ExprParser::refuse_computed_subscript(const Token& name) const {
  const bool computes =
      kind_named(name.text, kLastReduceKind) || kind_named(name.text, kLastAlgebraKind) || find_function(name.text);
  if (!computes || (!tokens_.at("[") && !tokens_.at("("))) return;
  tokens_.fail<TypeError>(name, fmt::format("`{}` stands in a subscript, which computes no numbers", name.text),
                          fmt::format("name the element: let j[s]: i32 = {}{}, and read x[j[s]]", name.text,
                                      tokens_.at("[") ? "[..](..)" : "(..)"));
}

void ExprParser::fail_no_function(const Token& name) const {
  const bool binds = kind_named(name.text, kLastReduceKind) || kind_named(name.text, kLastAlgebraKind);
  if (binds || find_named_form(name.text)) {
    tokens_.fail<ParseError>(name, fmt::format("`{}` needs its index", name.text),
                             fmt::format("write {}[index](...)", name.text));
  }
  if (is_tensor(name.text)) {
    tokens_.fail<TypeError>(name, fmt::format("`{}` is a tensor and cannot be called", name.text),
                            fmt::format("subscripts stand in brackets: {}[...]", name.text));
  }
  std::vector<std::string> known = function_names();
  if (const TextFunctions* defined = names_.functions()) {
    if (name.text == defined->being_defined)
      tokens_.fail<TypeError>(name, fmt::format("function `{}` calls itself", name.text),
                              "functions do not recurse; a recurrence over an index is a scan");
    std::ranges::move(defined->names(), std::back_inserter(known));
  }
  constant_named(name);  // if (x > 0) ...
  if (tokens_.is_defined_below(name.text))
    tokens_.fail<TypeError>(name, fmt::format("function `{}` is defined further down", name.text),
                            "move its `def` above this line");
  std::string hint(said_here(name.text));
  if (hint.empty()) hint = did_you_mean(name.text, known);
  if (hint.empty())
    hint = fmt::format("the functions are {}; define others: def {}(x) = ...", fmt::join(known, " "), name.text);
  tokens_.fail<TypeError>(name, fmt::format("there is no function `{}`", name.text), hint);
}

Operand ExprParser::function_call(const Token& name) {
  if (const TextFunction* defined = names_.find_function(name.text)) return text_function_call(name, *defined);
  const ScalarFunction* function = find_function(name.text);
  if (!function) fail_no_function(name);
  tokens_.expect("(");
  std::vector<Operand> args;
  do args.push_back(disjunction());
  while (tokens_.accept(","));
  tokens_.expect(")");
  const bool variadic = function->arity < 0;
  const bool fits = variadic ? args.size() >= 2 : args.size() == static_cast<std::size_t>(function->arity);
  if (!fits) {
    const std::string wanted = variadic ? "two or more arguments" : fmt::format("{} argument(s)", function->arity);
    tokens_.fail<TypeError>(name, fmt::format("`{}` takes {}, but {} were given", name.text, wanted, args.size()),
                            variadic ? fmt::format("to reduce over an index write {}[index](...)", name.text) : "");
  }
  if (function->name == "where") return choice(std::move(args));
  return make_call(function->name, std::move(args));
}

/// Its quotients of indices are bound around the whole.
Operand ExprParser::choice(std::vector<Operand> args) {
  args[0] = as_condition(std::move(args[0]));
  const std::vector<Expr> given = {args[0].expr, args[1].expr, args[2].expr};
  Operand result = make_call("where", std::move(args));
  result.expr = choose_by(given[0], given[1], given[2]);
  return result;
}

bool ExprParser::is_tensor(std::string_view name) const {
  return program_.find_input(name) || program_.find_definition(name);
}

/// `pi`, unless something else is called so, and what other languages have at this place.
std::optional<Operand> ExprParser::constant_named(const Token& name) const {
  if (name.text == "pi") return Operand{constant(std::numbers::pi), std::nullopt};
  if (name.text == "if") tokens_.fail<ParseError>(name, "there is no `if`", std::string(said_here(name.text)));
  return std::nullopt;
}

Operand ExprParser::bare_name(const Token& name) {
  if (const Argument* argument = names_.find_argument(name.text)) {
    if (!argument->is_tensor) return argument->value;
    tokens_.fail<ShapeError>(
        name, fmt::format("parameter `{}` is a tensor and needs {} subscript(s) here", name.text, argument->open));
  }
  if (is_tensor(name.text) && !names_.find(name.text)) {
    const std::vector<Affine> shape = program_.shape_of(name.text);
    if (shape.empty()) return {tensor_access(std::string(name.text), {}), std::nullopt};
    tokens_.fail<ShapeError>(
        name, fmt::format("`{}` has the shape {} and needs subscripts here", name.text, shape_text(shape)),
        "give one subscript per axis");
  }
  if (const std::optional<Operand> known = names_.knows(program_, name.text) ? std::nullopt : constant_named(name))
    return *known;
  const Affine value = names_.resolve_index(program_, name);
  return {index_value(value), value};
}

}  // namespace moxie
