#include "compiler/text/text_function.h"
#include "compiler/program/identifiers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/text/prelude.h"

namespace moxie {
namespace {

/// `x`, or `x[:,:]` with as many open subscripts; names may stand for them: `x[s,d]`.
FunctionParameter read_parameter(TokenStream& tokens) {
  FunctionParameter parameter{tokens.expect_name("the name of a parameter")};
  if (is_reserved(parameter.name.text))
    tokens.fail<TypeError>(
        parameter.name, fmt::format("`{}` is a word of the language and cannot name a parameter", parameter.name.text));
  if (!tokens.accept("[")) return parameter;
  parameter.is_tensor = true;
  do {
    if (!tokens.accept(":") && !tokens.at_name())
      tokens.fail_expected("`:`", fmt::format("a tensor as a parameter is written {}[:,:], with one `:` for each "
                                              "subscript that the body gives",
                                              parameter.name.text));
    if (tokens.at_name()) tokens.next();
    ++parameter.open;
  } while (tokens.accept(","));
  tokens.expect("]");
  return parameter;
}

void skip_expression(TokenStream& tokens) {
  while (tokens.peek().kind != TokenKind::Newline && tokens.peek().kind != TokenKind::End) tokens.next();
}

/// `f` of `f.x`: the longest part of the name that a function has.
const TextFunction& differentiated_function(TokenStream& tokens, const TextFunctions& functions, const Token& name) {
  const std::string wanted = "write derivative f.x = expression, where x is a parameter of the function f";
  std::size_t dot = name.text.rfind('.');
  if (dot == std::string_view::npos) tokens.fail<ParseError>(name, "the derivative is by no parameter", wanted);
  const std::string_view function = name.text.substr(0, dot);
  for (; dot != std::string_view::npos && dot > 0; dot = name.text.rfind('.', dot - 1)) {
    const TextFunction* found = functions.find(name.text.substr(0, dot));
    if (found && !functions.is_prelude(*found)) return *found;
  }
  const bool is_of_language = functions.find(function) || find_function(function);
  if (is_of_language)
    tokens.fail<TypeError>(
        name, fmt::format("the derivative of `{}` belongs to the language", function),
        fmt::format("give it another name: def my_{0}(x) = ..., and declare that of my_{0}", function));
  if (tokens.is_defined_below(function))
    tokens.fail<TypeError>(name, fmt::format("function `{}` is defined further down", function),
                           "move its derivative below its `def`");
  const std::string similar = did_you_mean(function, functions.names());
  tokens.fail<TypeError>(
      name, fmt::format("there is no function `{}`", function),
      similar.empty() ? fmt::format("define it in a line above: def {}(x) = expression", function) : similar);
}

std::size_t differentiated_parameter(TokenStream& tokens, const TextFunction& function, const Token& name) {
  const std::string_view parameter = name.text.substr(function.name.text.size() + 1);
  const auto found =
      std::ranges::find(function.parameters, parameter, [](const FunctionParameter& known) { return known.name.text; });
  if (found == function.parameters.end()) {
    std::vector<std::string> names;
    for (const FunctionParameter& known : function.parameters) names.emplace_back(known.name.text);
    tokens.fail<TypeError>(name, fmt::format("`{}` has no parameter `{}`", function.name.text, parameter),
                           names.empty() ? "it has none" : fmt::format("it has {}", fmt::join(names, ", ")));
  }
  if (found->is_tensor)
    tokens.fail<TypeError>(
        name, fmt::format("`{}` is a tensor: derivatives are declared by numbers", parameter),
        fmt::format("let another function take an element, def g(u) = ..., declare the derivative of g, and call "
                    "g({}[..]) in `{}`",
                    parameter, function.name.text));
  return static_cast<std::size_t>(found - function.parameters.begin());
}

}  // namespace

Symbol open_subscript() {
  static const Symbol symbol = Symbol::fresh();
  return symbol;
}

TextFunction read_signature(TokenStream& tokens) {
  TextFunction function{tokens.expect_name("the name of a function"), &tokens};
  tokens.expect("(", "write def f(x, y) = expression");
  while (!tokens.at(")")) {
    FunctionParameter parameter = read_parameter(tokens);
    const bool twice = std::ranges::any_of(
        function.parameters, [&](const FunctionParameter& other) { return other.name.text == parameter.name.text; });
    if (twice)
      tokens.fail<TypeError>(parameter.name, fmt::format("two parameters are called `{}`", parameter.name.text));
    function.parameters.push_back(parameter);
    if (!tokens.accept(",")) break;
  }
  tokens.expect(")");
  tokens.expect("=", "write def f(x, y) = expression");
  function.body = tokens.position();
  skip_expression(tokens);
  return function;
}

DeclaredDerivative read_derivative(TokenStream& tokens, const TextFunctions& functions) {
  const Token name = tokens.expect_name("a function and its parameter, as in derivative f.x = expression");
  const TextFunction& function = differentiated_function(tokens, functions, name);
  DeclaredDerivative derivative{&function, differentiated_parameter(tokens, function, name),
                                TextFunction{name, &tokens, function.parameters}};
  if (functions.slope(function, derivative.parameter))
    tokens.fail<TypeError>(name, fmt::format("the derivative `{}` is declared already", name.text),
                           "leave one of the two out");
  if (functions.called.contains(&function))
    tokens.fail<TypeError>(name, fmt::format("`{}` is called above, without this derivative", function.name.text),
                           fmt::format("move the derivative directly below the `def` of `{}`", function.name.text));
  tokens.expect("=", fmt::format("write derivative {} = expression", name.text));
  derivative.slope.body = tokens.position();
  skip_expression(tokens);
  return derivative;
}

TextFunctions::TextFunctions()
    : prelude_text_(std::make_unique<SourceText>(prelude_text(), "prelude")),
      prelude_tokens_(std::make_unique<TokenStream>(*prelude_text_)) {
  while (prelude_tokens_->peek().kind != TokenKind::End) {
    prelude_tokens_->expect("def");
    add(read_signature(*prelude_tokens_));
    prelude_tokens_->next();
  }
  prelude_size_ = functions_.size();
}

const TextFunction* TextFunctions::find(std::string_view name, const TextFunction* caller) const {
  const std::size_t end = caller ? caller->number : functions_.size();
  for (std::size_t k = end; k-- > 0;) {
    if (functions_[k].name.text == name) return &functions_[k];
  }
  return nullptr;
}

const TextFunction* TextFunctions::slope(const TextFunction& function, std::size_t parameter) const {
  const auto found = std::ranges::find_if(derivatives_, [&](const DeclaredDerivative& derivative) {
    return derivative.of == &function && derivative.parameter == parameter;
  });
  return found == derivatives_.end() ? nullptr : &found->slope;
}

const TextFunction& TextFunctions::add(TextFunction function) {
  function.number = functions_.size();
  function.is_checked = true;
  functions_.push_back(std::move(function));
  return functions_.back();
}

std::vector<std::string> TextFunctions::names() const {
  std::vector<std::string> names;
  for (const TextFunction& function : functions_) {
    if (!function.name.text.starts_with('_')) names.emplace_back(function.name.text);
  }
  return names;
}

const Operand* TextFunctions::known_result(const CallKey& key) const {
  const auto it = results_.find(key);
  return it == results_.end() ? nullptr : &it->second.value;
}

void TextFunctions::remember(const CallKey& key, const std::vector<Argument>& arguments, const Operand& result) {
  results_.emplace(key, Result{arguments, result});
}

}  // namespace moxie
