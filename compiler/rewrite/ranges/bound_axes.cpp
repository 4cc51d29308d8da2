#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/analysis/inside_proof.h"
#include "compiler/diff/guards.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/axis_order.h"
#include "compiler/rewrite/products/split_products.h"

namespace moxie {
namespace {

/// How many times as many elements as its band a definition must have to be cut down to that: a library multiplies a
/// whole box in the time that loops over ragged rows take for a part of it. (Gradient of attention to the last 33 of
/// words with 64 features on one thread: of 512 words 7.8 ms by a box, 7.2 to 9.4 by a band; of 4096 words 26 by a
/// band, where a box has 64 times as many elements as that of 512. Of what is no product, the factor is a guess.)
constexpr double kProductInBox = 16, kOtherInBox = 4;

/// The last axis that the row mentions, if it mentions nothing else but axes and dims.
std::optional<std::uint32_t> last_axis_of(const Affine& row, const Definition& definition) {
  std::optional<std::uint32_t> last;
  for (const auto& [symbol, coefficient] : row.terms()) {
    if (!symbol.is_dim() && symbol.kind() != Symbol::Kind::Axis) return std::nullopt;
  }
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    if (row.mentions(Symbol::axis(k))) last = k;
  }
  return last;
}

/// The definition with the rows, which are all >= 0, as bounds of its axes.
std::optional<Definition> with_rows(Definition definition, const std::vector<Affine>& rows) {
  for (const Affine& row : rows) {
    const auto last = last_axis_of(row, definition);
    if (!last) return std::nullopt;
    Range& range = definition.axes[*last].range;
    range = with_bound(std::move(range), Symbol::axis(*last), row);
  }
  IndexDomain around({});
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    Range& range = definition.axes[k].range;
    range = without_idle_bounds(std::move(range), Symbol::axis(k), around);
    around.add_range(Symbol::axis(k), range);
  }
  return definition;
}

/// Without the conditions on its axes that choose between zero and the rest of its body: as their ranges.
std::optional<Definition> without_choice(Definition definition) {
  const Expr body = definition.body;
  if (!is_call(body, "where") || !body->args[2]->is_constant(0)) return std::nullopt;
  const IndexCondition says = conditions_of(body->args[0], true);
  if (!says.rest.empty() || !says.zero.empty()) return std::nullopt;
  definition.body = body->args[1];
  return with_rows(std::move(definition), says.nonnegative);
}

struct AxisRead {
  std::vector<Affine> subscripts;
  Scope scope;
};

/// The definitions that read each tensor, by their place in the program. This pass takes conditions on axes out of
/// bodies, which read nothing.
using Readers = std::map<std::string, std::vector<std::size_t>>;

Readers readers_in(const Program& program) {
  Readers readers;
  for (std::size_t i = 0; i < program.definitions.size(); ++i) {
    for (const auto& [name, count] : read_counts(program.definitions[i].body)) readers[name].push_back(i);
  }
  return readers;
}

std::vector<AxisRead> reads_by(const Definition& reader, const std::string& name) {
  std::vector<AxisRead> reads;
  rewrite_bottom_up(reader.body, Scope::of(reader), [&](const Expr& e, const Scope& scope) {
    if (e->kind == NodeKind::Access && e->tensor == name) reads.push_back({e->subscripts, scope});
    return e;
  });
  return reads;
}

/// What the ranges around the read say of several axes of the tensor: rows >= 0 in these axes.
std::vector<Affine> rows_of_axes(const AxisRead& read) {
  std::vector<std::pair<Symbol, Affine>> axes;
  for (std::uint32_t k = 0; k < read.subscripts.size(); ++k) {
    if (const auto symbol = read.subscripts[k].as_symbol()) axes.emplace_back(*symbol, Symbol::axis(k));
  }
  const auto axis_of = [&](Symbol symbol) -> const Affine* {
    const auto found = std::ranges::find(axes, symbol, &std::pair<Symbol, Affine>::first);
    return found == axes.end() ? nullptr : &found->second;
  };
  std::vector<Affine> rows;
  const auto add = [&](const Affine& row) {
    const auto is_index = [](const Affine::Term& term) { return !term.first.is_dim(); };
    const auto is_axis = [&](const Affine::Term& term) { return term.first.is_dim() || axis_of(term.first); };
    if (std::ranges::count_if(row.terms(), is_index) >= 2 && std::ranges::all_of(row.terms(), is_axis))
      rows.push_back(row.substitute(axis_of));
  };
  for (const auto& [symbol, range] : read.scope.open) {
    for (const Bound& low : range.lows) add(Affine(symbol) * low.divisor - low.value);
    for (const Bound& high : range.highs) add(high.value - Affine(symbol) * high.divisor);
  }
  return rows;
}

/// Whether the ranges around the read imply the row of the tensor's axes.
bool implies(const AxisRead& read, const Affine& row) {
  const Affine here = row.substitute([&](Symbol symbol) -> const Affine* {
    return symbol.kind() == Symbol::Kind::Axis ? &read.subscripts[symbol.number()] : nullptr;
  });
  return domain_of(read.scope).prove_nonnegative(here) == Proof::Holds;
}

/// Without the elements outside of a band that nobody reads.
std::optional<Definition> without_unread(const Program& program, const Readers& readers, const Definition& definition) {
  const auto reading = readers.find(definition.name);
  if (reading == readers.end()) return std::nullopt;
  std::optional<std::vector<Affine>> rows;
  for (const std::size_t reader : reading->second) {
    for (const AxisRead& read : reads_by(program.definitions[reader], definition.name)) {
      if (!rows) rows = rows_of_axes(read);
      std::erase_if(*rows, [&](const Affine& row) { return !implies(read, row); });
      if (rows->empty()) return std::nullopt;
    }
  }
  if (!rows) return std::nullopt;
  auto result = with_rows(definition, *rows);
  const double least = is_library_product(program, definition) ? kProductInBox : kOtherInBox;
  const auto gains = [&](const AxisDecl& axis) {
    return assumed_extent(axis.range) * least <= assumed_extent(Range::extent(axis.extent));
  };
  const bool had_band = std::ranges::any_of(definition.axes, gains);
  return result && !had_band && std::ranges::any_of(result->axes, gains) ? result : std::nullopt;
}

bool reads_element_by_value(const Expr& body, const std::string& name) {
  bool found = false;
  visit(body, [&](const Expr& e) { found |= reads_by_value(e) && e->tensor == name; });
  return found;
}

/// Whether the body of the definition and all that read it find the elements that they read. Of what a value names
/// nothing is known.
bool suits_readers(const Program& program, const Readers& readers, const Definition& definition) {
  const auto suits = [&](const Definition& reader) {
    const auto at = reader.scan ? std::optional(AtStep{*reader.scan, Symbol::axis(0)}) : std::nullopt;
    return !reads_element_by_value(reader.body, definition.name) &&
           InsideProof(program, Inside::Element, at).holds_within(reader.body, domain_of(Scope::of(reader)));
  };
  if (!suits(definition)) return false;
  const auto reading = readers.find(definition.name);
  return reading == readers.end() ||
         std::ranges::all_of(reading->second, [&](std::size_t reader) { return suits(program.definitions[reader]); });
}

}  // namespace

Program bound_axes(const Program& program) {
  Program result = program;
  const Readers readers = readers_in(program);
  // What reads the last ones tells which elements of those before them are read.
  for (auto definition = result.definitions.rbegin(); definition != result.definitions.rend(); ++definition) {
    if (definition->output || definition->scan || definition->body->kind == NodeKind::LinearAlgebra) continue;
    auto next = without_choice(*definition);
    if (!next) next = without_unread(result, readers, *definition);
    if (!next) continue;
    std::swap(*definition, *next);
    if (!suits_readers(result, readers, *definition)) std::swap(*definition, *next);
  }
  return result;
}

}  // namespace moxie
