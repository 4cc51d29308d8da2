#include "compiler/text/text_reduction.h"
#include "compiler/program/identifiers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"
#include "compiler/text/expr_parser.h"

namespace moxie {
namespace {

constexpr const char* kReductionForm =
    "write reduction name(x, y) identity (0, 0) combine(a, b) = (a.x + b.x, a.y + b.y) finish = x/y";

std::vector<Monoid::Component> read_components(TokenStream& tokens, const std::function<ValueDomain()>& domain) {
  std::vector<Monoid::Component> components;
  tokens.expect("(", kReductionForm);
  do {
    const Token name = tokens.expect_name("the name of a component");
    if (is_reserved(name.text) || name.text.find('.') != std::string_view::npos)
      tokens.fail<TypeError>(name, fmt::format("`{}` cannot name a component", name.text),
                             "a component has a name of its own, without dots");
    if (std::ranges::find(components, name.text, &Monoid::Component::name) != components.end())
      tokens.fail<TypeError>(name, fmt::format("two components are called `{}`", name.text));
    components.push_back({std::string(name.text), 0, domain()});
  } while (tokens.accept(","));
  tokens.expect(")");
  return components;
}

/// As many as there are components, in parentheses; one also without.
template <class Read>
void read_tuple(TokenStream& tokens, const Monoid& monoid, std::string_view what, const Read& read) {
  const Token opening = tokens.peek();
  const std::size_t wanted = monoid.components.size();
  if (wanted == 1) return read();
  tokens.expect("(", fmt::format("`{}` has {} components, which stand in parentheses", monoid.name, wanted));
  std::size_t given = 0;
  do {
    read();
    ++given;
  } while (tokens.accept(","));
  tokens.expect(")");
  if (given == wanted) return;
  std::vector<std::string> names;
  for (const auto& component : monoid.components) names.push_back(component.name);
  tokens.fail<ShapeError>(opening,
                          fmt::format("the {} of `{}` has {} component(s), but the state has {}: {}", what, monoid.name,
                                      given, wanted, fmt::join(names, ", ")),
                          "give one for each, in this order");
}

/// A Program whose inputs are the components of some states, in which formulas of these are read.
Program program_of(const Monoid& monoid, const std::vector<std::string>& prefixes) {
  Program program("", DType::f64);
  for (const std::string& prefix : prefixes) {
    for (const auto& component : monoid.components) program.inputs.push_back({prefix + component.name, DType::f64, {}});
  }
  return program;
}

/// Refuses what the formula may not mention, before it is read as one of the states alone.
void check_names(TokenStream& tokens, const Program& program, const Names& names, const Monoid& monoid,
                 const Program& states, std::string_view what) {
  const std::size_t start = tokens.position();
  std::vector<std::string> known;
  for (const InputDecl& input : states.inputs) known.push_back(input.name);
  for (; tokens.peek().kind != TokenKind::Newline && tokens.peek().kind != TokenKind::End; tokens.next()) {
    const Token name = tokens.peek();
    if (what == "combine" && name.text == "finish" && tokens.peek_second().text == "=") break;
    if (!tokens.at_name() || states.find_input(name.text)) continue;
    const bool is_own = name.text == monoid.name || name.text.starts_with(monoid.name + ".");
    if (is_own && (tokens.peek_second().text == "[" || tokens.peek_second().text == "("))
      tokens.fail<TypeError>(name, fmt::format("`{}` stands in its own {}", monoid.name, what),
                             "reductions do not recurse: write what becomes of two states in numbers");
    if (tokens.peek_second().text == "(" || !names.knows(program, name.text)) continue;
    tokens.fail<TypeError>(
        name, fmt::format("the {} of `{}` mentions `{}`, which is no part of a state", what, monoid.name, name.text),
        fmt::format("it may mention {}, numbers and functions; what else it needs is a component of the elements",
                    fmt::join(known, ", ")));
  }
  tokens.seek(start);
}

void check_formula(TokenStream& tokens, const Token& at, const Expr& formula) {
  visit(formula, [&](const Expr& e) {
    if (e->kind == NodeKind::Random)
      tokens.fail<TypeError>(at, "a random draw stands here, so that equal states would not combine to equal ones",
                             "make the draw a component of the elements");
  });
  if (formula->kind == NodeKind::Call && formula->function->result == ResultType::Truth)
    tokens.fail<TypeError>(at, "this is a condition, but a number is wanted", "write where(condition, 1, 0)");
}

/// A formula of the components of `states`.
Expr read_formula(TokenStream& tokens, TextFunctions& functions, const Program& states) {
  const Token at = tokens.peek();
  Names names(tokens, functions);
  Expr formula = ExprParser(tokens, states, names, 0).disjunction().expr;
  check_formula(tokens, at, formula);
  return formula;
}

double read_number(TokenStream& tokens, TextFunctions& functions) {
  const Token at = tokens.peek();
  const Expr number = read_formula(tokens, functions, Program());
  if (number->kind != NodeKind::Constant)
    tokens.fail<TypeError>(at, "the identity is made of numbers", "write 0, -1.5, inf or -inf");
  return number->value;
}

std::vector<std::pair<std::string, Expr>> to_state(const Monoid& monoid, const std::string& prefix,
                                                   const State& state) {
  std::vector<std::pair<std::string, Expr>> replacement;
  for (std::size_t k = 0; k < state.size(); ++k) replacement.emplace_back(prefix + monoid.components[k].name, state[k]);
  return replacement;
}

void read_combine(TokenStream& tokens, const Program& program, const Names& names, TextFunctions& functions,
                  Monoid& monoid) {
  tokens.expect("combine", kReductionForm);
  tokens.expect("(", kReductionForm);
  const std::string a = std::string(tokens.expect_name("the name of the left state").text) + ".";
  tokens.expect(",", "combine takes two states: combine(a, b) = ..");
  const Token right = tokens.expect_name("the name of the right state");
  const std::string b = std::string(right.text) + ".";
  if (a == b) tokens.fail<TypeError>(right, "both states have the same name", "write combine(a, b) = ..");
  tokens.expect(")");
  tokens.expect("=", kReductionForm);
  const Program states = program_of(monoid, {a, b});
  check_names(tokens, program, names, monoid, states, "combine");
  auto replacement = to_state(monoid, a, monoid.left());
  std::ranges::move(to_state(monoid, b, monoid.right()), std::back_inserter(replacement));
  read_tuple(tokens, monoid, "combine",
             [&] { monoid.combine.push_back(replace_scalars(read_formula(tokens, functions, states), replacement)); });
}

}  // namespace

const Monoid* TextReductions::find(std::string_view name) const {
  const auto found = std::ranges::find(monoids_, name, &Monoid::name);
  return found == monoids_.end() ? nullptr : &*found;
}

const Monoid* TextReductions::find_component(std::string_view name, std::size_t& component) const {
  const std::size_t dot = name.rfind('.');
  const Monoid* monoid = dot == std::string_view::npos ? nullptr : find(name.substr(0, dot));
  const auto found = monoid ? monoid->find(name.substr(dot + 1)) : std::nullopt;
  component = found.value_or(0);
  return found ? monoid : nullptr;
}

std::vector<std::string> TextReductions::names() const {
  std::vector<std::string> names;
  for (const Monoid& monoid : monoids_) names.push_back(monoid.name);
  return names;
}

State TextReductions::reduced(const Monoid& monoid, const MonoidReduction& reduction) {
  ++uses;
  Program& program = site->program;
  const DType declared = site->definition.dtype;
  const DType dtype = is_stored_as_computed(declared) ? declared : program.default_dtype;
  const PlaceInScan position = scan_of(program, monoid, reduction, dtype);
  const auto known = std::ranges::find(known_, position.scan, &Known::scan);
  if (known != known_.end()) return position.state(known->name);
  const std::string name = new_scan_name(program, monoid, site->definition.name);
  for (Definition& definition : position.scan.definitions(name, last_scan(program) + 1)) {
    definition.line = site->definition.line;
    program.definitions.insert(program.definitions.begin() + static_cast<std::ptrdiff_t>(site->position++),
                               std::move(definition));
  }
  known_.push_back({position.scan, name});
  return position.state(name);
}

Monoid read_reduction(TokenStream& tokens, const Program& program, Names& names, TextFunctions& functions,
                      const std::function<ValueDomain()>& domain) {
  Monoid monoid;
  const Token name = tokens.expect_name("the name of a reduction");
  names.check_new(program, name, "a reduction");
  monoid.name = name.text;
  monoid.components = read_components(tokens, domain);
  tokens.expect("identity", kReductionForm);
  std::size_t next = 0;
  read_tuple(tokens, monoid, "identity", [&] {
    const double value = read_number(tokens, functions);
    if (next < monoid.components.size()) monoid.components[next++].identity = value;
  });
  functions.reductions.being_defined = name.text;
  read_combine(tokens, program, names, functions, monoid);
  if (tokens.accept("finish")) {
    tokens.expect("=", kReductionForm);
    const Program states = program_of(monoid, {""});
    check_names(tokens, program, names, monoid, states, "finish");
    monoid.finish = replace_scalars(read_formula(tokens, functions, states), to_state(monoid, "", monoid.left()));
  }
  functions.reductions.being_defined = {};
  return monoid;
}

}  // namespace moxie
