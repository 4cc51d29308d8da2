#include "compiler/program/expr_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/placeholders.h"

namespace moxie {
namespace {

enum Strength : int { kAny, kOr, kAnd, kNot, kCompare, kSum, kProduct, kUnary, kPower, kPrimary };

struct Operator {
  std::string_view function;
  int strength;
};
constexpr std::array<Operator, 14> kOperators = {{{"or", kOr},
                                                  {"and", kAnd},
                                                  {"not", kNot},
                                                  {"<", kCompare},
                                                  {"<=", kCompare},
                                                  {">", kCompare},
                                                  {">=", kCompare},
                                                  {"==", kCompare},
                                                  {"!=", kCompare},
                                                  {"+", kSum},
                                                  {"*", kProduct},
                                                  {"/", kProduct},
                                                  {"neg", kUnary},
                                                  {"pow", kPower}}};

/// An index value may be a mere number, once dims have their values.
int strength_of(const Affine& affine) {
  if (affine.is_constant()) return affine.constant() < 0 ? kUnary : kPrimary;
  return affine.as_symbol() ? kPrimary : kSum;
}

int strength_of(const Node& node) {
  if (node.kind == NodeKind::Constant) return std::signbit(node.value) ? kUnary : kPrimary;
  if (node.kind == NodeKind::IndexValue) return strength_of(node.affine);
  if (node.kind != NodeKind::Call) return kPrimary;
  const auto it = std::ranges::find(kOperators, node.function->name, &Operator::function);
  return it == kOperators.end() ? kPrimary : it->strength;
}

bool is_call(const Node& node, std::string_view function) {
  return node.kind == NodeKind::Call && node.function->name == function;
}

bool is_index(const Node& node) { return node.kind == NodeKind::IndexValue && node.affine.as_symbol(); }

/// Whether the parser would take the operand, as written in a chain, for a part of an affine expression.
bool is_foldable(const Node& node) {
  if (node.kind == NodeKind::IndexValue) return strength_of(node.affine) > kSum;
  return node.kind == NodeKind::Constant && std::trunc(node.value) == node.value;
}

bool is_foldable_term(const Node& node) { return is_foldable(is_call(node, "neg") ? *node.args[0] : node); }

}  // namespace

ExprPrinter::ExprPrinter(const Program& program, const std::vector<AxisDecl>& axes) : program_(program), axes_(axes) {
  for (const AxisDecl& axis : axes) {
    scope_.push_back({Symbol::axis(static_cast<std::uint32_t>(scope_.size())), axis.name, axis.range});
  }
}

std::string ExprPrinter::axis(std::size_t position) const {
  const AxisDecl& axis = axes_[position];
  std::string text = binder(axis.name, axis.range);
  if (axis_extent(program_, axis.name, axis.range) != axis.extent) text += " of " + print(axis.extent);
  return text;
}

SymbolSpelling ExprPrinter::spelling() const {
  return [this](Symbol symbol) -> std::string {
    const InScope* known = find(symbol);
    if (!known) return symbol.name();
    if (!known->quotient) return known->name;
    const Quotient& quotient = *known->quotient;
    std::string text = fmt::format("({}{}{})", dividend_text(quotient.value), quotient_mark_, quotient.divisor);
    divided_here_.push_back(symbol);
    return text;
  };
}

std::string ExprPrinter::dividend_text(const Affine& value) const {
  const std::string text = print(value);
  return value.as_symbol() ? text : "(" + text + ")";
}

std::string ExprPrinter::index_text(const Affine& affine, const SymbolSpelling& spell) const {
  Affine rest = affine;
  std::vector<std::pair<Symbol, const InScope*>> remainders;
  for (const InScope& entry : scope_) {
    if (!entry.quotient) continue;
    const auto& [value, divisor] = *entry.quotient;
    const std::int64_t coefficient = rest.coefficient(entry.symbol);
    if (coefficient == 0 || coefficient % divisor != 0) continue;
    const std::int64_t times = -coefficient / divisor;
    const Affine others = rest - (value - Affine(entry.symbol) * divisor) * times;
    if (others.terms().size() >= rest.terms().size()) continue;
    remainders.emplace_back(Symbol::fresh(), &entry);
    rest = others + Affine(remainders.back().first) * times;
  }
  if (remainders.empty()) return affine_text(affine, spell);
  const bool is_whole = rest == Affine(remainders[0].first);
  return affine_text(rest, [&](Symbol symbol) -> std::string {
    const auto found = std::ranges::find(remainders, symbol, &std::pair<Symbol, const InScope*>::first);
    if (found == remainders.end()) return spell(symbol);
    const Quotient& quotient = *found->second->quotient;
    const std::string text = fmt::format("{}%{}", dividend_text(quotient.value), quotient.divisor);
    divided_here_.push_back(found->second->symbol);
    return is_whole ? text : "(" + text + ")";
  });
}

const ExprPrinter::InScope* ExprPrinter::find(Symbol symbol) const {
  const auto it =
      std::find_if(scope_.rbegin(), scope_.rend(), [&](const InScope& entry) { return entry.symbol == symbol; });
  return it == scope_.rend() ? nullptr : &*it;
}

bool ExprPrinter::in_scope(const std::string& name) const {
  return std::ranges::any_of(scope_, [&](const InScope& entry) { return entry.name == name; });
}

std::string ExprPrinter::print(const Expr& expr, int strength) {
  if (const std::optional<Divided> short_form = divided(*expr))
    return short_form->is_number && strength > kProduct ? "(" + short_form->text + ")" : short_form->text;
  const std::string text = bare(*expr);
  return strength_of(*expr) < strength ? "(" + text + ")" : text;
}

std::string ExprPrinter::bare(const Node& node) {
  switch (node.kind) {
    case NodeKind::Constant:
      return fmt::format("{}", node.value);
    case NodeKind::IndexValue:
      return print(node.affine);
    case NodeKind::Access:
      return access(node);
    case NodeKind::Call:
      return call(node);
    case NodeKind::Reduce:
      return reduction(node);
    case NodeKind::LinearAlgebra:
      return algebra(node);
    case NodeKind::Random:
      break;
  }
  return random(node);
}

std::string ExprPrinter::access(const Node& node) {
  if (node.subscripts.empty()) return node.tensor;
  const SymbolSpelling index = spelling();
  const SymbolSpelling spell = [&](Symbol symbol) {
    return symbol.is_value() && symbol.number() < node.args.size() ? print(node.args[symbol.number()]) : index(symbol);
  };
  std::vector<std::string> subscripts;
  for (const Affine& subscript : node.subscripts) {
    const std::optional<Symbol> symbol = subscript.as_symbol();
    const InScope* known = symbol ? find(*symbol) : nullptr;
    const std::string text = index_text(subscript, spell);
    subscripts.push_back(known && known->quotient ? text.substr(1, text.size() - 2) : text);
  }
  return fmt::format("{}[{}]", node.tensor, fmt::join(subscripts, ","));
}

std::string ExprPrinter::call(const Node& node) {
  const std::string_view name = node.function->name;
  if (name == "+") return sum(node);
  if (name == "*") return product(node);
  if (name == "neg") return negation(node);
  if (name == "/") return infix(node, "/", kProduct, kPower);
  if (name == "pow") return infix(node, "^", kPrimary, kPower);
  if (name == "not") return "not " + print(node.args[0], kNot);
  if (name == "and") return infix(node, " and ", kNot, kNot);
  if (name == "or") return infix(node, " or ", kAnd, kAnd);
  if (strength_of(node) == kCompare) return infix(node, fmt::format(" {} ", name).c_str(), kSum, kSum);
  std::vector<std::string> args;
  for (const Expr& arg : node.args) args.push_back(print(arg, kAny));
  return fmt::format("{}({})", name, fmt::join(args, ", "));
}

std::string ExprPrinter::infix(const Node& node, const char* separator, int first, int others) {
  std::string text = print(node.args[0], first);
  for (std::size_t i = 1; i < node.args.size(); ++i) text += separator + print(node.args[i], others);
  return text;
}

/// Indices stand in parentheses where the parser would fold the whole sum into one affine number.
std::string ExprPrinter::sum(const Node& node) {
  const bool first_folds = is_foldable(*node.args[0]);
  const bool folds =
      first_folds && std::ranges::all_of(node.args, [](const Expr& arg) { return is_foldable_term(*arg); });
  const auto term = [&](const Expr& arg) { return print(arg, folds && is_index(*arg) ? kPrimary + 1 : kProduct); };
  std::string text = term(node.args[0]);
  for (std::size_t i = 1; i < node.args.size(); ++i) {
    const Expr& arg = node.args[i];
    text += is_call(*arg, "neg") ? " - " + term(arg->args[0]) : " + " + term(arg);
  }
  return text;
}

std::string ExprPrinter::product(const Node& node) {
  const bool folds = std::ranges::all_of(node.args, [](const Expr& arg) { return is_foldable(*arg); }) &&
                     std::ranges::count_if(node.args, [](const Expr& arg) { return is_index(*arg); }) == 1;
  std::string text;
  for (const Expr& arg : node.args) {
    const bool wrapped = (folds && is_index(*arg)) || is_call(*arg, "*");
    const int strength = text.empty() ? kProduct : kPower;
    text += (text.empty() ? "" : "*") + print(arg, wrapped ? kPrimary + 1 : strength);
  }
  return text;
}

/// A bare number or index behind the minus would be read as a negative number or a multiple of the index.
std::string ExprPrinter::negation(const Node& node) {
  const Node& arg = *node.args[0];
  const bool wrapped = arg.kind == NodeKind::Constant || arg.kind == NodeKind::IndexValue;
  return "-" + print(node.args[0], wrapped ? kPrimary + 1 : kPower);
}

std::string ExprPrinter::choose_name(const Range& range) const {
  for (const IndexDecl& index : program_.indices) {
    if (index.range == range && !in_scope(index.name)) return index.name;
  }
  for (int number = 1;; ++number) {
    std::string name = fmt::format("i{}", number);
    const bool taken = in_scope(name) || program_.find_dim(name) || find_index(program_, name) ||
                       program_.find_input(name) || program_.find_definition(name);
    if (!taken) return name;
  }
}

void ExprPrinter::enter(Symbol symbol, const Range& range) {
  if (const std::optional<Quotient> quotient = as_quotient(range))
    scope_.push_back({symbol, {}, range, quotient});
  else
    name_index(symbol, range);
}

std::string ExprPrinter::name_index(Symbol symbol, const Range& range) {
  scope_.push_back({symbol, choose_name(range), range});
  return scope_.back().name;
}

std::string ExprPrinter::binder(const std::string& name, const Range& range) const {
  const IndexDecl* index = find_index(program_, name);
  return index && index->range == range ? name : fmt::format("{} in {}", name, print(range));
}

/// x[i/2], i//2 or i%2, where reading that gives these very sums over quotients, in this order.
std::optional<ExprPrinter::Divided> ExprPrinter::divided(const Node& node) {
  const std::size_t outside = scope_.size();
  const Node* body = &node;
  std::vector<Symbol> symbols;
  bool is_readable = true;
  while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) {
    const std::optional<Quotient> quotient = as_quotient(body->range);
    if (!quotient) break;
    Placeholders read;
    read.floor_of(quotient->value, quotient->divisor);
    is_readable &= !read.empty() && std::ranges::find(scope_, quotient, &InScope::quotient) == scope_.end();
    symbols.push_back(Symbol::bound(body->height));
    scope_.push_back({symbols.back(), {}, body->range, quotient});
    body = body->args[0].get();
  }
  std::optional<Divided> result;
  if (!symbols.empty() && is_readable) {
    std::vector<Symbol> outer = std::exchange(divided_here_, {});
    result = divided_body(*body, *scope_.back().quotient, symbols.back());
    std::vector<Symbol> order;
    for (const Symbol symbol : divided_here_) {
      if (std::ranges::find(order, symbol) == order.end()) order.push_back(symbol);
    }
    if (order != symbols) result.reset();
    divided_here_ = std::move(outer);
  }
  scope_.erase(scope_.begin() + static_cast<std::ptrdiff_t>(outside), scope_.end());
  return result;
}

std::optional<ExprPrinter::Divided> ExprPrinter::divided_body(const Node& body, const Quotient& innermost,
                                                              Symbol symbol) {
  if (body.kind == NodeKind::Access) return Divided{access(body), false};
  if (body.kind != NodeKind::IndexValue) return std::nullopt;
  const bool is_remainder = body.affine == innermost.value - Affine(symbol) * innermost.divisor;
  if (!is_remainder && body.affine != Affine(symbol)) return std::nullopt;
  const char* outer_mark = std::exchange(quotient_mark_, "//");
  const Divided number{
      fmt::format("{}{}{}", dividend_text(innermost.value), is_remainder ? "%" : "//", innermost.divisor), true};
  quotient_mark_ = outer_mark;
  divided_here_.push_back(symbol);
  return number;
}

std::string ExprPrinter::reduction(const Node& node) {
  std::string binders;
  const Node* innermost = &node;
  std::size_t count = 0;
  while (true) {
    binders += (count++ == 0 ? "" : ",") + binder(choose_name(innermost->range), innermost->range);
    name_index(Symbol::bound(innermost->height), innermost->range);
    const Node& body = *innermost->args[0];
    if (extremum_of(node.reduce) || body.kind != NodeKind::Reduce || body.reduce != node.reduce || divided(body)) break;
    innermost = &body;
  }
  std::string text = fmt::format("{}[{}]({}", to_string(node.reduce), binders, print(innermost->args[0], kAny));
  if (extremum_of(node.reduce) && node.args[1] != index_value(Symbol::bound(node.height)))
    text += ", " + print(node.args[1], kAny);
  text += ")";
  scope_.erase(scope_.end() - static_cast<std::ptrdiff_t>(count), scope_.end());
  return text;
}

const ExprPrinter::InScope* ExprPrinter::element_index(const Affine& subscript) const {
  const std::optional<Symbol> symbol = subscript.as_symbol();
  return symbol ? find(*symbol) : nullptr;
}

bool ExprPrinter::shares_outer_names(const Node& node) const {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < node.subscripts.size(); ++k) {
    const InScope* index = element_index(node.subscripts[k]);
    const bool is_last = k + 1 == node.subscripts.size();
    const Affine& extent = is_last ? node.size.columns : node.size.rows;  // of the index that has this name inside
    if (!index || index_extent(program_, index->name, &index->range) != extent) return false;
    const bool used_inside =
        std::ranges::any_of(node.args, [&](const Expr& arg) { return arg->depends_on(index->symbol); });
    if (used_inside || std::ranges::find(names, index->name) != names.end()) return false;
    names.push_back(index->name);
  }
  return true;
}

std::string ExprPrinter::algebra(const Node& node) {
  const Range rows = Range::extent(node.size.rows), columns = Range::extent(node.size.columns);
  const std::size_t elements = algebra_form(node.algebra).elements;
  if (elements > 0 && shares_outer_names(node)) {
    const std::string col = element_index(node.subscripts.back())->name;
    if (sorts_row(node.algebra)) return sort_at(node, col);
    if (elements == 2) return algebra_at(node, element_index(node.subscripts[0])->name, col);
    return algebra_at(node, choose_name(rows), col);
  }
  const std::string text = sorts_row(node.algebra) ? sort_at(node, choose_name(rows)) : matrix_at(node, rows, columns);
  return elements == 0 ? text : fmt::format("{}[{}]", text, affine_list_text(node.subscripts, spelling()));
}

std::string ExprPrinter::matrix_at(const Node& node, const Range& rows, const Range& columns) {
  const std::string row = name_index(Symbol::bound(node.height), rows);
  const std::string col = choose_name(columns);
  scope_.pop_back();
  return algebra_at(node, row, col);
}

std::string ExprPrinter::sort_at(const Node& node, const std::string& index) {
  const Range range = Range::extent(node.size.rows);
  std::string text = fmt::format("{}[{}](", to_string(node.algebra), in_scope(index) ? index : binder(index, range));
  scope_.push_back({Symbol::bound(node.height), index, range});
  text += print(node.args[0], kAny);
  scope_.pop_back();
  return text + ")";
}

std::string ExprPrinter::algebra_at(const Node& node, const std::string& row, const std::string& col) {
  const Range rows = Range::extent(node.size.rows), columns = Range::extent(node.size.columns);
  const auto index = [&](const std::string& name, const Range& range) {
    return in_scope(name) ? name : binder(name, range);
  };
  std::string text = fmt::format("{}[{},{}](", to_string(node.algebra), index(row, rows), index(col, columns));
  scope_.push_back({Symbol::bound(node.height), row, rows});
  scope_.push_back({Symbol::bound(node.height - 1), col, columns});
  text += print(node.args[0], kAny);
  if (node.args.size() > 1) text += ", " + print(node.args[1], kAny);
  scope_.erase(scope_.end() - 2, scope_.end());
  return text + ")";
}

std::string ExprPrinter::random(const Node& node) const {
  std::vector<Affine> all_axes;
  for (std::size_t k = 0; k < axes_.size(); ++k) all_axes.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
  const std::string text = fmt::format("{}({})", to_string(node.random), node.stream);
  return node.subscripts == all_axes ? text
                                     : fmt::format("{}[{}]", text, affine_list_text(node.subscripts, spelling()));
}

}  // namespace moxie
