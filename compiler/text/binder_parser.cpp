// The part of ExprParser that reads what binds indices (reductions, linear algebra) or counts elements (random draws).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/expression/algebra_form.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/text/expr_parser.h"

namespace moxie {

Binding ExprParser::parse_binder(TokenStream& tokens, const Program& program, const Names& names, Symbol symbol) {
  const Token name = tokens.expect_name("the name of an index");
  if (tokens.at("[")) {
    tokens.fail<TypeError>(name, fmt::format("an index is wanted here, and `{}[..]` is an element", name.text),
                           fmt::format("elements stand in subscripts: x[s,{}[..]]", name.text));
  }
  names.check_bindable(program, name);
  if (tokens.accept("in")) {
    const NameResolver resolve{[&](const Token& used) { return names.resolve_index(program, used); },
                               [&](const Affine& dims) { return value_in_text(program, dims); }};
    return {std::string(name.text), symbol, parse_range(tokens, resolve)};
  }
  if (const IndexDecl* index = find_index(program, name.text)) return {index->name, symbol, index->range};
  tokens.fail<TypeError>(name, fmt::format("index `{}` is not declared", name.text),
                         fmt::format("declare it (index {0}:N) or give it a range: [{0} in 0..N]", name.text));
}

ExprParser::Loops ExprParser::binders(const std::string& hint) {
  tokens_.expect("[");
  Loops loops;
  do {
    add_loop(loops);
    names_.bind(loops.bindings.back());
  } while (tokens_.accept(","));
  tokens_.expect("]", hint);
  names_.unbind(loops.bindings.size());
  return loops;
}

Operand ExprParser::reduction(ReduceKind kind) {
  const Token opening = tokens_.peek();
  const Loops loops = binders("write sum[r,t](...) or sum[t in low..high](...)");
  if (extremum_of(kind) && loops.bindings.size() > 1) {
    tokens_.fail<TypeError>(
        opening, fmt::format("`{}` is over one index, but {} stand here", to_string(kind), loops.bindings.size()),
        fmt::format("write {0}[i](e[i], position of i), where e[i] may be an extremum over the other "
                    "indices",
                    to_string(kind)));
  }
  return reduction_body(kind, loops);
}

Operand ExprParser::reduction_body(ReduceKind kind, const Loops& loops) {
  Operand position{{}, {}, 0, 0};
  Operand element = looped(loops, extremum_of(kind) ? &position : nullptr);
  return reduction_of(kind, loops, std::move(element), std::move(position));
}

Operand ExprParser::looped(const Loops& loops, Operand* position) {
  for (const Binding& loop : loops.bindings) names_.bind(loop);
  tokens_.expect("(", "the body of a reduction stands in parentheses");
  Operand element = disjunction();
  if (position && tokens_.accept(",")) *position = disjunction();
  tokens_.expect(")");
  names_.unbind(loops.bindings.size());
  element.affine.reset();
  return element;
}

Operand ExprParser::reduction_of(ReduceKind kind, const Loops& loops, Operand result, Operand position) {
  const std::vector<Binding>& bindings = loops.bindings;
  const bool searches = extremum_of(kind).has_value();
  if (!loops.conditions.empty()) {
    // Elements outside lose against all others, and without others stand at infinity, as where there are none.
    if (searches && !position.expr) position = {index_value(bindings[0].symbol), std::nullopt};
    if (searches) position = only_where(loops.conditions, position, std::numeric_limits<double>::infinity());
    result = only_where(loops.conditions, std::move(result), neutral_value(extremum_of(kind).value_or(kind)));
  }
  result.depth = std::max(result.depth, position.depth);
  result.size += position.size + static_cast<double>(bindings.size());
  result.depth += static_cast<int>(bindings.size());
  tokens_.check_depth(result.depth);
  result.affine.reset();
  result.expr = reduced(kind, loops, result.expr, position.expr);
  return result;
}

Expr ExprParser::reduced(ReduceKind kind, const Loops& loops, Expr body, const Expr& position) {
  for (std::size_t k = loops.bindings.size(); k-- > 0;) {
    const Binding& loop = loops.bindings[k];
    body = loops.quotients[k].bind(reduce(kind, loop.symbol, loop.range, body, position));
  }
  return body;
}

/// Unlike the index of a reduction, one of a matrix may be in scope already: then it also says which element is taken.
Binding ExprParser::matrix_binder() {
  const Token name = tokens_.peek();
  const Binding* outer = tokens_.at_name() && tokens_.peek_second().text != "in" ? names_.find(name.text) : nullptr;
  if (!outer) return parse_binder(tokens_, program_, names_, Symbol::fresh());
  tokens_.next();
  const std::optional<Affine> size = index_extent(program_, name.text, &outer->range);
  if (!size) tokens_.fail<ShapeError>(name, fmt::format("index `{}` of a matrix must run from 0", name.text));
  return {outer->name, Symbol::fresh(), Range::extent(*size)};
}

ExprParser::MatrixNames ExprParser::matrix_names(LinearAlgebraKind kind) {
  tokens_.expect("[");
  const Token row_token = tokens_.peek();
  Binding row = matrix_binder();
  tokens_.expect(",", "linear algebra is over two indices, row and column: [r,t]");
  const Token col_token = tokens_.peek();
  Binding col = matrix_binder();
  tokens_.expect("]", "linear algebra is over two indices, row and column: [r,t]");
  if (row.name == col.name) tokens_.fail<TypeError>(col_token, "row and column of a matrix need different indices");
  const std::optional<Affine> rows = row.range.as_extent();
  const std::optional<Affine> cols = col.range.as_extent();
  if (!rows || !cols)
    tokens_.fail<ShapeError>(rows ? col_token : row_token, "the index of a matrix must run from 0 to its extent");
  if (*rows != *cols && !takes_tall(kind)) {
    tokens_.fail<ShapeError>(row_token, fmt::format("the matrix is not square: `{}` has {} values, `{}` has {}",
                                                    row.name, print(*rows), col.name, print(*cols)));
  }
  return {row_token, col_token, std::move(row), std::move(col), {*rows, *cols}};
}

Expr ExprParser::right_hand_side(const MatrixNames& matrix, Operand& whole) {
  tokens_.expect(",", "a solve takes a matrix and a right-hand side: solve[r,t](A, b)");
  const Operand rhs = disjunction();
  if (rhs.expr->depends_on(matrix.col.symbol)) {
    tokens_.fail<TypeError>(matrix.col_token,
                            fmt::format("the right-hand side is a vector over `{}` and must not mention `{}`",
                                        matrix.row.name, matrix.col.name));
  }
  whole.depth = std::max(whole.depth, rhs.depth);
  whole.size += rhs.size;
  return rhs.expr;
}

/// The element that is taken: as written behind the call, `inverse[r,t](A)[i,k]`, or at the indices of that name around
/// it.
std::vector<Affine> ExprParser::matrix_element(LinearAlgebraKind kind, const MatrixNames& matrix) {
  const AlgebraForm form = algebra_form(kind);
  std::vector<std::pair<const Binding*, Token>> outer = {{names_.find(matrix.row.name), matrix.row_token},
                                                         {names_.find(matrix.col.name), matrix.col_token}};
  const bool explicit_element = form.elements > 0 && tokens_.accept("[");
  const std::size_t bound = explicit_element ? 2 : 2 - form.elements;
  for (std::size_t i = 0; i < bound; ++i) {
    if (outer[i].first) names_.check_bindable(program_, outer[i].second);
  }
  if (explicit_element) {
    const Token at = tokens_.peek();
    std::vector<Affine> element = parse_affine_list(tokens_, index_resolver());
    if (element.size() == form.elements) return element;
    tokens_.fail<ShapeError>(at, fmt::format("`{}` gives {} subscript(s) per element, but {} stand here",
                                             to_string(kind), form.elements, element.size()));
  }
  std::vector<Affine> element;
  for (std::size_t i = bound; i < 2; ++i) {
    if (outer[i].first)
      element.emplace_back(outer[i].first->symbol);
    else
      tokens_.fail<TypeError>(
          outer[i].second, fmt::format("index `{}` is not bound here, so no element is chosen", outer[i].second.text),
          fmt::format("make it an axis, or choose an element: {}[r,t](...)[i,k]", to_string(kind)));
  }
  return element;
}

Operand ExprParser::linear_algebra(LinearAlgebraKind kind) {
  const MatrixNames matrix = matrix_names(kind);
  names_.bind(matrix.row);
  names_.bind(matrix.col);
  tokens_.expect("(");
  Operand result = disjunction();
  const Expr rhs = algebra_form(kind).has_rhs ? right_hand_side(matrix, result) : Expr();
  tokens_.expect(")");
  names_.unbind(2);
  tokens_.check_depth(++result.depth);
  result.affine.reset();
  result.expr = moxie::linear_algebra(kind, matrix.row.symbol, matrix.col.symbol, matrix.size, result.expr, rhs,
                                      matrix_element(kind, matrix));
  return result;
}

Operand ExprParser::random(const Token& name, RandomKind kind) {
  tokens_.expect("(");
  const std::int64_t stream = tokens_.expect_integer("the number of a random stream");
  tokens_.expect(")", fmt::format("write {}(3), with the number of a random stream", name.text));
  std::vector<Affine> coordinates;
  if (tokens_.accept("[")) {
    coordinates = parse_affine_list(tokens_, index_resolver());
  } else {
    for (std::size_t k = 0; k < axes_; ++k) coordinates.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
  }
  return {moxie::random(kind, stream, std::move(coordinates)), std::nullopt};
}

}  // namespace moxie
