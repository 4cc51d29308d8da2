#include "compiler/ir/text_function.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/prelude.h"

namespace moxie {
namespace {

/// `x`, or `x[:,:]` with as many open subscripts; names may stand for them: `x[s,d]`.
Parameter read_parameter(TokenStream& tokens) {
  Parameter parameter{tokens.expect_name("the name of a parameter")};
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

}  // namespace

Symbol open_subscript() {
  static const Symbol symbol = Symbol::fresh();
  return symbol;
}

TextFunction read_signature(TokenStream& tokens) {
  TextFunction function{tokens.expect_name("the name of a function"), &tokens};
  tokens.expect("(", "write def f(x, y) = expression");
  while (!tokens.at(")")) {
    Parameter parameter = read_parameter(tokens);
    const bool twice = std::ranges::any_of(
        function.parameters, [&](const Parameter& other) { return other.name.text == parameter.name.text; });
    if (twice)
      tokens.fail<TypeError>(parameter.name, fmt::format("two parameters are called `{}`", parameter.name.text));
    function.parameters.push_back(parameter);
    if (!tokens.accept(",")) break;
  }
  tokens.expect(")");
  tokens.expect("=", "write def f(x, y) = expression");
  function.body = tokens.position();
  while (tokens.peek().kind != TokenKind::Newline && tokens.peek().kind != TokenKind::End) tokens.next();
  return function;
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

const TextFunction& TextFunctions::add(TextFunction function) {
  function.number = functions_.size();
  functions_.push_back(std::move(function));
  return functions_.back();
}

std::vector<std::string> TextFunctions::names() const {
  std::vector<std::string> names;
  for (const TextFunction& function : functions_) names.emplace_back(function.name.text);
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
