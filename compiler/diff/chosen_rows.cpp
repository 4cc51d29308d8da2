#include "compiler/diff/chosen_rows.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/inside_proof.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/expression/quotients.h"

namespace moxie {
namespace {

/// A subscript of a read that conditions choose.
struct ChosenSubscript {
  Expr number;
  Expr access;  // the read whose subscript it is; empty where it is a choice
  bool by_value = false;
  bool by_quotient = false;
};

struct ChosenRead {
  std::string tensor;
  std::vector<ChosenSubscript> subscripts;
};

ChosenRead plain_read(const Expr& access) {
  ChosenRead read{access->tensor, {}};
  for (std::size_t k = 0; k < access->subscripts.size(); ++k)
    read.subscripts.push_back({subscript_value(access, k), access, access->subscripts[k].mentions_value()});
  return read;
}

std::optional<ChosenRead> chosen_read(const Expr& expr);

/// Whether it rises by one or two from one index to the next, as (4*i-1)//6 does: no loop that takes a number of
/// indices at a time makes it affine, as one by pairs does i//2.
bool rises_unevenly(const Quotient& quotient) {
  return std::ranges::any_of(quotient.value.terms(), [](const Affine::Term& term) {
    return !term.first.is_dim() && std::abs(term.second) > 1;
  });
}

/// A choice whose conditions, or whose subscripts, such a quotient gives.
std::optional<ChosenRead> read_at_quotient(const Expr& sum) {
  const bool is_sum = sum->kind == NodeKind::Reduce && sum->reduce == ReduceKind::Sum;
  const auto quotient = is_sum ? as_quotient(sum->range) : std::nullopt;
  if (!quotient || !rises_unevenly(*quotient)) return std::nullopt;
  const OpenedReduce opened = open(sum);
  auto read = is_call(opened.body, "where") ? chosen_read(opened.body) : std::nullopt;
  if (!read) return std::nullopt;
  for (ChosenSubscript& subscript : read->subscripts) {
    if (!subscript.number->depends_on(opened.index)) continue;
    subscript = {reduce(ReduceKind::Sum, opened.index, opened.range, subscript.number), {}, subscript.by_value, true};
  }
  return read;
}

/// The expression as one read of a tensor, if it is a choice among such.
std::optional<ChosenRead> chosen_read(const Expr& expr) {
  if (expr->kind == NodeKind::Access) return plain_read(expr);
  if (expr->kind == NodeKind::Reduce) return read_at_quotient(expr);
  if (!is_call(expr, "where")) return std::nullopt;
  auto yes = chosen_read(expr->args[1]);
  const auto no = yes ? chosen_read(expr->args[2]) : std::nullopt;
  if (!no || yes->tensor != no->tensor) return std::nullopt;
  for (std::size_t k = 0; k < yes->subscripts.size(); ++k) {
    ChosenSubscript& subscript = yes->subscripts[k];
    const ChosenSubscript& other = no->subscripts[k];
    if (subscript.number == other.number) continue;
    subscript = {call("where", {expr->args[0], subscript.number, other.number}),
                 {},
                 subscript.by_value || other.by_value,
                 subscript.by_quotient || other.by_quotient};
  }
  return yes;
}

/// Integers for each element that they are made of, as the taps of a filter are: a table of so many costs less than the
/// reads of all branches of two choices. (One choice among three rows, two of them the same for all, took 0.37 ms in a
/// spline of 20 000 points, and 0.55 with a table.)
constexpr std::int64_t kTaps = 8;

/// How many elements the axis has; too many where a dim is one of its bounds.
std::int64_t taps_of(const IndexBox& box) {
  const Affine extent = box.high - box.low + Affine(1);
  return extent.is_constant() ? extent.constant() : kTaps + 1;
}

/// Whether one of the elements that the integer is made of has all of its indices but those of a few taps.
bool is_hardly_larger_than_its_elements(const Expr& integer, const std::vector<Symbol>& variables,
                                        const std::vector<IndexBox>& boxes, std::int64_t most_taps) {
  bool found = false;
  visit(integer, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    std::int64_t taps = 1;
    for (std::size_t k = 0; k < variables.size() && taps <= most_taps; ++k) {
      if (!e->depends_on(variables[k])) taps *= taps_of(boxes[k]);
    }
    found |= taps <= most_taps;
  });
  return found;
}

IndexDomain index_domain(const IterationDomain& domain) {
  IndexDomain result({});
  for (const Affine& row : domain.nonnegative) result.add_nonnegative(row);
  return result;
}

/// That of the widest elements that it is made of.
DType dtype_of_integer(const Expr& integer, const Program& program) {
  DType result = DType::i32;
  visit(integer, [&](const Expr& e) {
    if (e->kind == NodeKind::Access && program.dtype_of(e->tensor) == DType::i64) result = DType::i64;
  });
  return result;
}

class ChosenRows {
 public:
  ChosenRows(ProgramBuilder& builder, const Definition& definition, Choosers choosers)
      : builder_(builder), definition_(definition), choosers_(choosers), open_(open_definition(definition)) {}

  Expr run() { return substitute(walk(open_.body, open_.domain), closing_of(open_)); }

 private:
  Expr walk(const Expr& expr, const IterationDomain& domain) {
    const bool may_have_quotients = choosers_ == Choosers::IntegersAndQuotients && expr->height > 0;
    if ((!expr->gathers && !may_have_quotients) || expr->kind == NodeKind::LinearAlgebra) return expr;
    if (const auto read = choosers_ == Choosers::Integers ? std::nullopt : read_at_quotient(expr)) {
      if (const auto one = as_one_read(*read, domain)) return *one;
    }
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      const IterationDomain inside = extended(domain, opened.index, opened.range);
      return map_opened(expr, opened, [&](const Expr& child) { return walk(child, inside); });
    }
    if (is_call(expr, "where")) {
      const auto read = chosen_read(expr);
      if (const auto one = read ? as_one_read(*read, domain) : std::nullopt) return *one;
    }
    return map_children(expr, [&](const Expr& child) { return walk(child, domain); });
  }

  std::optional<Expr> as_one_read(const ChosenRead& read, const IterationDomain& domain) {
    const auto is_chosen = [](const ChosenSubscript& subscript) { return !subscript.access; };
    const std::int64_t most_taps = std::ranges::count_if(read.subscripts, is_chosen) > 1 ? kTaps : 1;
    for (const ChosenSubscript& subscript : read.subscripts) {
      if (is_chosen(subscript) && !may_be_named(subscript, domain, most_taps)) return std::nullopt;
    }
    std::vector<Affine> subscripts;
    std::vector<Expr> values;
    for (std::size_t k = 0; k < read.subscripts.size(); ++k) {
      const auto& [number, access, by_value, by_quotient] = read.subscripts[k];
      const Symbol next = Symbol::value(static_cast<std::uint32_t>(values.size()));
      if (access) {
        subscripts.push_back(with_values(access->subscripts[k], access->args, values));
      } else {
        subscripts.emplace_back(next);
        values.push_back(named(number, domain));
      }
    }
    return tensor_access(read.tensor, std::move(subscripts), std::move(values));
  }

  /// The subscript, whose values are added to `values`.
  static Affine with_values(const Affine& subscript, const std::vector<Expr>& own, std::vector<Expr>& values) {
    Affine result = subscript;
    for (const auto& [symbol, coefficient] : subscript.terms()) {
      if (!symbol.is_value()) continue;
      result += (Affine(Symbol::value(static_cast<std::uint32_t>(values.size()))) - Affine(symbol)) * coefficient;
      values.push_back(own.at(symbol.number()));
    }
    return result;
  }

  /// Whether the integer can be computed for all values of its indices: outside of the conditions around it.
  bool may_be_named(const ChosenSubscript& subscript, const IterationDomain& domain, std::int64_t most_taps) const {
    if (!subscript.by_value && !subscript.by_quotient) return false;
    const Expr& integer = subscript.number;
    const std::vector<Symbol> variables = variables_of(integer, domain);
    const auto boxes = boxes_of(domain, variables);
    const auto is_small = [&] {
      return subscript.by_value ? is_hardly_larger_than_its_elements(integer, variables, *boxes, most_taps)
                                : is_read_often(variables, domain);
    };
    return boxes && is_small() &&
           std::ranges::all_of(variables, [&](Symbol variable) { return has_own_range(variable, domain); }) &&
           InsideProof(builder_.program(), Inside::Element).holds_within(integer, index_domain(domain));
  }

  /// Whether the indices of a table of integers are few of those around its reads.
  static bool is_read_often(const std::vector<Symbol>& variables, const IterationDomain& domain) {
    std::int64_t reads = 1;
    for (const Symbol variable : domain.variables) {
      const auto box = box_of(domain, variable);
      const bool is_own = std::ranges::find(variables, variable) != variables.end();
      if (!is_own && reads <= kTaps) reads *= box ? taps_of(*box) : 1;
    }
    return reads > kTaps;
  }

  Expr named(const Expr& integer, const IterationDomain& domain) {
    if (const Expr* known = named_.find(integer.get())) return *known;
    const std::vector<Symbol> variables = variables_of(integer, domain);
    const auto axes = as_axes(builder_, variables, *boxes_of(domain, variables), names_of(definition_, open_));
    const DType dtype = dtype_of_integer(integer, builder_.program());
    const Expr element = builder_.add_let({definition_.name + ".row", dtype, definition_.line}, axes, integer);
    integers_.push_back(integer);
    return named_[integer.get()] = element;
  }

  ProgramBuilder& builder_;
  const Definition& definition_;
  const Choosers choosers_;
  const OpenDefinition open_;
  NodeMap<Expr> named_;
  std::vector<Expr> integers_;  // keeps the nodes alive
};

}  // namespace

Program name_chosen_rows(const Program& program, Choosers choosers) {
  Program kept = program;
  kept.definitions.clear();
  ProgramBuilder builder(std::move(kept));
  for (const Definition& definition : program.definitions) builder.reserve(definition.name);
  for (Definition definition : program.definitions) {
    if (!definition.scan && !definition.recomputed) definition.body = ChosenRows(builder, definition, choosers).run();
    builder.add_definition(std::move(definition));
  }
  return builder.take();
}

}  // namespace moxie
