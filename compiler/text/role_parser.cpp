#include "compiler/text/role_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/text/expr_parser.h"

namespace moxie {
namespace {

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  for (const InitialiserForm& form : initialiser_forms()) names.emplace_back(form.name);
  return names;
}

const InitialiserForm& parse_form(TokenStream& tokens) {
  const Token name = tokens.expect_name("how the tensor starts");
  const auto forms = initialiser_forms();
  const auto found = std::ranges::find(forms, name.text, &InitialiserForm::name);
  if (found != forms.end()) return *found;
  const std::string similar = did_you_mean(name.text, form_names());
  tokens.fail<ParseError>(name, fmt::format("`{}` is no way to start", name.text),
                          similar.empty() ? fmt::format("known: {}", fmt::join(form_names(), ", ")) : similar);
}

}  // namespace

double parse_number(TokenStream& tokens, const Program& program, Names& names, const std::string& hint) {
  const Token first = tokens.peek();
  const Expr number = ExprParser(tokens, program, names, 0).sum().expr;
  if (number->kind != NodeKind::Constant || !std::isfinite(number->value))
    tokens.fail<ParseError>(first, "this is no number", hint);
  return number->value;
}

Initialiser parse_initialiser(TokenStream& tokens, const Program& program, Names& names, std::string_view word,
                              const InputDecl& input) {
  if (!tokens.accept("init"))
    tokens.fail_expected("`init`",
                         fmt::format("say how it starts: {} {} init {}", word, input.name,
                                     input.shape.empty() ? "zeros (or ones, constant(0.5), normal(0.1), ..)"
                                                         : "glorot (or zeros, ones, constant(0.5), normal(0.1), ..)"));
  const Token first = tokens.peek();
  const InitialiserForm& form = parse_form(tokens);
  std::vector<double> numbers;
  if (tokens.accept("(")) {
    do numbers.push_back(parse_number(tokens, program, names, fmt::format("write init {}", form.use)));
    while (tokens.accept(","));
    tokens.expect(")");
  }
  if (numbers.size() < form.least || numbers.size() > form.most)
    tokens.fail<ParseError>(first, fmt::format("`{}` does not take {} numbers", form.name, numbers.size()),
                            fmt::format("write init {}", form.use));
  Initialiser start = make_initialiser(form.name, std::move(numbers));
  if (const std::string problem = problem_of(start, input.shape.size()); !problem.empty())
    tokens.fail<TypeError>(first, fmt::format("`{}` cannot start {}: {}", form.name, input.name, problem),
                           "write another start, such as constant(0.5) or normal(0.1)");
  return start;
}

}  // namespace moxie
