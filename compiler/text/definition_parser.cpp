#include "compiler/text/definition_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/text/expr_parser.h"
#include "compiler/text/role_parser.h"

namespace moxie {
namespace {

bool starts_at_zero(const Range& range) {
  return std::ranges::all_of(range.lows, [](const Bound& low) { return low.value == Affine(0); });
}

}  // namespace

Token DefinitionParser::new_name(const std::string& what) {
  const Token name = tokens_.expect_name("the name of " + what);
  names_.check_new(program_, name, what);
  return name;
}

NameResolver DefinitionParser::dim_resolver() const {
  return {[this](const Token& name) { return names_.resolve_dim(program_, name); },
          [this](const Affine& dims) { return value_in_text(program_, dims); }};
}

DType DefinitionParser::dtype() {
  const std::optional<DType> named = dtype_named(tokens_.peek().text);
  if (!named) tokens_.fail_expected(dtype_names());
  tokens_.next();
  return *named;
}

DType DefinitionParser::optional_dtype() { return tokens_.accept(":") ? dtype() : program_.default_dtype; }

ValueDomain DefinitionParser::value_domain() {
  ValueDomain domain;
  if (!value_bound(domain)) return domain;
  const Token joint = tokens_.peek();
  if (tokens_.accept("and") && !value_bound(domain))
    tokens_.fail_expected("the other bound", "a domain with two bounds is declared `>= 0 and < 1`");
  if (tokens_.at("and")) tokens_.fail<ParseError>(tokens_.peek(), "a domain has two bounds at most");
  if (joint.text == "and" && !(domain.low && domain.high))
    tokens_.fail<ParseError>(joint, "a domain has one bound below and one above", "write `>= 0 and < 1`");
  return domain;
}

/// Whether a bound follows, which then is the domain's.
bool DefinitionParser::value_bound(ValueDomain& domain) {
  const std::string_view relation = tokens_.peek().text;
  const bool is_low = relation == ">" || relation == ">=";
  if (!is_low && relation != "<" && relation != "<=") return false;
  tokens_.next();
  const double number = parse_number(tokens_, program_, names_,
                                     "a tensor may be declared `> 0`, `>= 0`, `< 0` or `<= 0`, or so with other "
                                     "numbers, also with two: `>= 0 and <= 1`");
  (is_low ? domain.low : domain.high) = ValueDomain::Bound{number, relation.size() == 1};
  return true;
}

Definition DefinitionParser::head(const Token& name, bool is_output) {
  Definition result;
  result.name = name.text;
  result.output = is_output;
  result.line = tokens_.source().line_of(name.offset);
  if (tokens_.accept("[")) result.axes = axes();
  names_.unbind(result.axes.size());
  result.dtype = optional_dtype();
  result.domain = value_domain();
  tokens_.expect("=", fmt::format("write {} {}[i,j] = expression", is_output ? "output" : "let", name.text));
  return result;
}

Expr DefinitionParser::body(const Definition& definition, std::size_t& position) {
  DefinitionSite site{program_, definition, position};
  functions_.reductions.site = &site;
  Expr result = body(definition);
  functions_.reductions.site = nullptr;
  position = site.position;
  return result;
}

Expr DefinitionParser::body(const Definition& definition) {
  for (std::size_t k = 0; k < definition.axes.size(); ++k) {
    const AxisDecl& axis = definition.axes[k];
    names_.bind({axis.name, Symbol::axis(static_cast<std::uint32_t>(k)), axis.range});
  }
  Expr result = ExprParser(tokens_, program_, names_, definition.axes.size()).disjunction().expr;
  names_.unbind(definition.axes.size());
  const bool is_condition = result->kind == NodeKind::Call && result->function->result == ResultType::Truth;
  const bool is_stored = is_condition && definition.dtype == DType::boolean;
  return is_stored ? call("where", {result, constant(1), constant(0)}) : result;
}

std::vector<AxisDecl> DefinitionParser::axes() {
  std::vector<AxisDecl> result;
  if (tokens_.accept("]")) return result;
  parse_list(tokens_, [&] {
    const Token name = tokens_.peek();
    const Symbol symbol = Symbol::axis(static_cast<std::uint32_t>(result.size()));
    Binding axis = ExprParser::parse_binder(tokens_, program_, names_, symbol);
    const Affine extent =
        tokens_.accept("of") ? parse_affine(tokens_, dim_resolver()) : default_extent(name, axis.range);
    result.push_back({axis.name, extent, axis.range});
    names_.bind(std::move(axis));
  });
  tokens_.expect("]");
  return result;
}

Affine DefinitionParser::default_extent(const Token& name, const Range& range) {
  if (const std::optional<Affine> extent = axis_extent(program_, name.text, range)) return *extent;
  if (find_index(program_, name.text) && !starts_at_zero(range)) {
    tokens_.fail<ShapeError>(
        name, fmt::format("index `{}` does not start at 0 and cannot be an axis", name.text),
        fmt::format("an axis runs from 0: write [{} in 0..N] under another name and shift the subscripts", name.text));
  }
  tokens_.fail<ShapeError>(name, fmt::format("the extent of axis `{}` cannot be seen from its range", name.text),
                           fmt::format("say how many elements are stored: {0} of N, or {0} in ... of N", name.text));
}

}  // namespace moxie
