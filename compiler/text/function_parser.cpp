// The part of ExprParser that reads calls of the functions that a text defines.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/expression/functions.h"
#include "compiler/text/expr_parser.h"

namespace moxie {
namespace {

constexpr std::size_t kMaxCalls = 20000;  // read in one text; each takes microseconds

std::string signature(const TextFunction& function) {
  std::string text(function.name.text);
  for (std::size_t k = 0; k < function.parameters.size(); ++k) {
    const FunctionParameter& parameter = function.parameters[k];
    text += k == 0 ? "(" : ", ";
    text += parameter.name.text;
    for (std::size_t open = 0; open < parameter.open; ++open) text += open == 0 ? "[:" : ",:";
    if (parameter.is_tensor) text += "]";
  }
  return text + (function.parameters.empty() ? "()" : ")");
}

/// Reads the body where it stands, and returns to where the stream was.
Operand read_at(TokenStream& tokens, std::size_t position, int depth, const std::function<Operand()>& read) {
  const std::size_t back = tokens.position();
  const int outer_depth = tokens.depth();
  tokens.seek(position);
  tokens.set_depth(depth);
  Operand result = read();
  if (tokens.peek().kind != TokenKind::Newline && tokens.peek().kind != TokenKind::End)
    tokens.fail_expected("the end of the statement");
  tokens.seek(back);
  tokens.set_depth(outer_depth);
  return result;
}

/// An argument of which nothing is known: it may stand for a number, a subscript or a tensor.
Argument any_argument(const FunctionParameter& parameter) {
  if (parameter.is_tensor) {
    const std::vector<Affine> open(parameter.open, Affine(open_subscript()));
    return {parameter.name.text, {tensor_access("", open), std::nullopt}, parameter.open, true};
  }
  const Affine value = Symbol::fresh();
  return {parameter.name.text, {index_value(value), value}};
}

bool is_truth_value(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth;
}

/// Whether derivatives are asked of it: it reads numbers, and is one.
bool has_derivative(const Program& program, const Expr& argument) {
  if (is_truth_value(argument)) return false;
  const auto is_integer = [&](const std::string& tensor) {  // a parameter that stands for a tensor has no name
    return !tensor.empty() && holds_integers(program.dtype_of(tensor));
  };
  bool reads = false;
  visit(argument, [&](const Expr& e) { reads = reads || (e->kind == NodeKind::Access && !is_integer(e->tensor)); });
  return reads;
}

/// The body for arguments of any kind.
Operand general_body(const Program& program, TextFunctions& functions, const TextFunction& function) {
  std::vector<Argument> arguments;
  for (const FunctionParameter& parameter : function.parameters) arguments.push_back(any_argument(parameter));
  TokenStream& tokens = *function.tokens;
  return read_at(tokens, function.body, tokens.depth(), [&] {
    Names names(tokens, functions, function, std::move(arguments));
    return ExprParser(tokens, program, names, 0).disjunction();
  });
}

}  // namespace

void define_function(const Program& program, TextFunctions& functions, TextFunction function) {
  function.number = functions.next_number();
  functions.being_defined = function.name.text;
  general_body(program, functions, function);
  functions.being_defined = {};
  functions.add(std::move(function));
}

void declare_derivative(const Program& program, TextFunctions& functions, DeclaredDerivative derivative) {
  derivative.slope.number = functions.next_number();
  functions.being_differentiated = derivative.of;
  const Expr slope = general_body(program, functions, derivative.slope).expr;
  functions.being_differentiated = nullptr;
  const auto refuse_condition = [&](const Expr& expr, std::string_view what) {
    if (is_truth_value(expr))
      derivative.slope.tokens->fail<TypeError>(derivative.slope.name,
                                               fmt::format("{} is a condition, but a number is wanted", what),
                                               "write where(condition, 1, 0)");
  };
  refuse_condition(slope, "the derivative");
  refuse_condition(general_body(program, functions, *derivative.of).expr,
                   fmt::format("what `{}` gives", derivative.of->name.text));
  derivative.slope.is_checked = true;
  functions.declare(std::move(derivative));
}

void ExprParser::fail_call(const Token& call, const TextFunction& function, const std::string& message,
                           const std::string& hint) const {
  std::string text = tokens_.source().describe(call.offset, message, hint);
  if (!names_.functions()->is_prelude(function))
    text += "\n" + function.tokens->source().describe(function.name.offset,
                                                      fmt::format("`{}` is defined here", function.name.text), "");
  throw TypeError(text);
}

Operand ExprParser::text_function_call(const Token& name, const TextFunction& function) {
  if (&function == names_.functions()->being_differentiated)
    tokens_.fail<TypeError>(name, fmt::format("the derivative of `{}` calls `{}` itself", name.text, name.text),
                            "write the expression out, or in a function above that both call: def g(x) = ...");
  tokens_.expect("(");
  std::vector<Argument> arguments;
  std::size_t given = 0;
  while (!tokens_.at(")")) {
    if (given < function.parameters.size())
      arguments.push_back(argument(name, function, function.parameters[given]));
    else
      disjunction();
    ++given;
    if (!tokens_.accept(",")) break;
  }
  tokens_.expect(")");
  if (given != function.parameters.size()) {
    fail_call(name, function,
              fmt::format("`{}` takes {} argument(s), but {} were given", name.text, function.parameters.size(), given),
              fmt::format("write {}", signature(function)));
  }
  return expand(name, function, arguments);
}

Argument ExprParser::argument(const Token& call, const TextFunction& function, const FunctionParameter& parameter) {
  if (parameter.is_tensor) return tensor_argument(call, function, parameter);
  return {parameter.name.text, disjunction()};
}

/// A tensor without subscripts, all of which are then open, or with `:` for those that are: `V[:,n]`.
Argument ExprParser::tensor_argument(const Token& call, const TextFunction& function,
                                     const FunctionParameter& parameter) {
  const Token name = tokens_.peek();
  const Argument* outer = names_.find_argument(name.text);
  const bool is_known = tokens_.at_name() && (outer ? outer->is_tensor : is_tensor(name.text));
  if (!is_known) {
    fail_call(name, function,
              fmt::format("parameter `{}` of `{}` is a tensor, but none stands here", parameter.name.text, call.text),
              fmt::format("write the name of a tensor, with `:` for subscripts that `{}` gives: x[s,:]; an expression "
                          "is given a name with `let`",
                          call.text));
  }
  tokens_.next();
  const std::size_t rank = outer ? outer->open : program_.shape_of(name.text).size();
  std::vector<Affine> subscripts;
  std::vector<Expr> values = outer ? outer->value.expr->args : std::vector<Expr>();
  const NameResolver resolver = subscript_resolver(values, nullptr);
  if (tokens_.accept("[")) {
    do subscripts.push_back(tokens_.accept(":") ? Affine(open_subscript()) : parse_affine(tokens_, resolver));
    while (tokens_.accept(","));
    tokens_.expect("]");
  } else {
    subscripts.assign(rank, Affine(open_subscript()));
  }
  const auto open = static_cast<std::size_t>(std::ranges::count(subscripts, Affine(open_subscript())));
  if (subscripts.size() != rank || open != parameter.open) {
    fail_call(name, function,
              fmt::format("`{}` has {} subscripts and leaves {} open here, but parameter `{}` of `{}` has {}",
                          name.text, rank, open, parameter.name.text, call.text, parameter.open),
              "give one subscript per axis, and `:` for each that is open");
  }
  Argument result{parameter.name.text, {}, open, true};
  result.value.expr = outer ? with_subscripts(*outer, subscripts, std::move(values))
                            : tensor_access(std::string(name.text), subscripts, std::move(values));
  return result;
}

Expr ExprParser::element_of(const Token& name, const Argument& tensor, Placeholders& placeholders) {
  if (!tensor.is_tensor)
    tokens_.fail<TypeError>(name, fmt::format("parameter `{0}` is a number and takes no subscripts", name.text),
                            fmt::format("where the parameters are named write {}[:] for a tensor", name.text));
  tokens_.expect("[");
  std::vector<Expr> values = tensor.value.expr->args;
  const IntegerForms forms = integer_forms(placeholders);
  const std::vector<Affine> subscripts = parse_affine_list(tokens_, subscript_resolver(values, &placeholders), &forms);
  if (subscripts.size() != tensor.open)
    tokens_.fail<ShapeError>(name, fmt::format("parameter `{}` takes {} subscript(s), but {} were given", name.text,
                                               tensor.open, subscripts.size()));
  return with_subscripts(tensor, subscripts, std::move(values));
}

Expr ExprParser::with_subscripts(const Argument& tensor, const std::vector<Affine>& given, std::vector<Expr> values) {
  std::vector<Affine> subscripts = tensor.value.expr->subscripts;
  std::size_t next = 0;
  for (Affine& subscript : subscripts) {
    if (subscript == Affine(open_subscript())) subscript = given[next++];
  }
  return tensor_access(tensor.value.expr->tensor, std::move(subscripts), std::move(values));
}

Operand ExprParser::expand(const Token& call, const TextFunction& function, const std::vector<Argument>& arguments) {
  TextFunctions& functions = *names_.functions();
  functions.called.insert(&function);
  TextFunctions::CallKey key{&function, axes_, {}};
  for (const Argument& argument : arguments)
    std::get<2>(key).emplace_back(argument.value.expr.get(), argument.value.affine.has_value());
  if (const Operand* known = functions.known_result(key)) return *known;
  if (++functions.calls > kMaxCalls)
    tokens_.fail<ParseError>(call,
                             fmt::format("the functions of this text call each other more than {} times", kMaxCalls),
                             "name results that are used often with `let`");
  const std::size_t scans = functions.reductions.uses;
  const Operand result = read_with_slopes(call, function, arguments);
  check_size(call, result);
  // The scans of reductions have the axes of the definition around them.
  if (functions.reductions.uses == scans) functions.remember(key, arguments, result);
  return result;
}

/// The body in which parameters of declared derivatives are held constant, and their slopes beside it.
Operand ExprParser::read_with_slopes(const Token& call, const TextFunction& function,
                                     const std::vector<Argument>& arguments) {
  std::vector<Argument> held = arguments;
  std::vector<std::pair<Operand, Operand>> slopes;  // of which argument
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const TextFunction* slope = names_.functions()->slope(function, k);
    if (!slope || !has_derivative(program_, arguments[k].value.expr)) continue;
    held[k].value = make_call("stop_gradient", {arguments[k].value});
    slopes.emplace_back(arguments[k].value, read_body(call, *slope, arguments));
  }
  Operand result = read_body(call, function, std::move(held));
  for (const auto& [argument, slope] : slopes) result = make_call("with_slope", {result, argument, slope});
  return result;
}

Operand ExprParser::read_body(const Token& call, const TextFunction& function, std::vector<Argument> arguments) {
  const TokenStream::Nesting nesting(tokens_);
  TokenStream& body = *function.tokens;
  const auto here = [&](const Error& error) {
    return error.what() +
           ("\n" + tokens_.source().describe(call.offset, fmt::format("in this call of `{}`", call.text), ""));
  };
  try {
    Operand result = read_at(body, function.body, tokens_.depth(), [&] {
      Names names(body, *names_.functions(), function, std::move(arguments));
      names.stand_inside(names_);
      return ExprParser(body, program_, names, axes_).disjunction();
    });
    return result;
  } catch (const ParseError& error) {
    throw ParseError(here(error), error.details());
  } catch (const TypeError& error) {
    throw TypeError(here(error), error.details());
  } catch (const ShapeError& error) {
    throw ShapeError(here(error), error.details());
  }
}

void ExprParser::check_size(const Token& at, const Operand& operand) const {
  if (operand.size <= kMaxSize) return;
  tokens_.fail<ParseError>(at, fmt::format("written out, this has more than {} operations", kMaxSize),
                           "name parts of it with `let`");
}

}  // namespace moxie
