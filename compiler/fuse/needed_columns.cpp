#include "compiler/fuse/needed_columns.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/diff/fourier_motzkin.h"
#include "compiler/diff/guards.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// One read of a product: its row, its column, and what is known of the indices there.
struct Read {
  Affine row, column;
  std::vector<Affine> nonnegative;
  IndexDomain domain;
};

struct ProductReads {
  MatrixProduct* product;
  std::vector<Read> reads = {};
  bool by_value = false;  // whether one of them finds its element by data
};

using ReadsOfProducts = std::map<std::string, ProductReads, std::less<>>;

std::vector<Affine> known_rows(const Scope& scope) {
  std::vector<Affine> rows;
  for (const auto& [symbol, range] : scope.open) std::ranges::move(rows_of(symbol, range), std::back_inserter(rows));
  for (const Expr& condition : scope.conditions)
    std::ranges::move(conditions_of(condition, true).nonnegative, std::back_inserter(rows));
  return rows;
}

IndexDomain domain_under(const Scope& scope) {
  IndexDomain domain = domain_of(scope);
  for (const Expr& condition : scope.conditions) domain = domain.where(condition, true);
  return domain;
}

ReadsOfProducts single_matrices(FusedProgram& fused) {
  ReadsOfProducts found;
  for (Step& step : fused.steps) {
    auto* const product = std::get_if<MatrixProduct>(&step);
    const bool is_matrix = product && product->out.rows.size() == 1 && product->out.columns.size() == 1;
    if (is_matrix && !product->definition.output) found.emplace(product->definition.name, ProductReads{product});
  }
  return found;
}

void add_reads(const Expr& expr, const Scope& scope, ReadsOfProducts& products) {
  rewrite_top_down(expr, scope, [&](const Expr& e, const Scope& inner) {
    if (is_call(e, "where")) {
      // What the branch reads that is not taken may be anything.
      add_reads(e->args[0], inner, products);
      add_reads(e->args[1], inner.where(e->args[0]), products);
      add_reads(e->args[2], inner.where(call("not", {e->args[0]})), products);
      return std::optional(e);
    }
    const auto of = e->kind == NodeKind::Access ? products.find(e->tensor) : products.end();
    if (of != products.end()) {
      auto& [product, reads, by_value] = of->second;
      by_value |= reads_by_value(e);
      reads.push_back({e->subscripts[product->out.rows[0]], e->subscripts[product->out.columns[0]], known_rows(inner),
                       domain_under(inner)});
    }
    return std::optional<Expr>();
  });
}

bool is_of_dims(const Affine& affine) {
  return std::ranges::all_of(affine.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
}

/// A distance d for which sign*(row - column) + d >= 0 at every read.
std::optional<Affine> distance(const std::vector<Read>& reads, std::int64_t sign) {
  const auto slope = [&](const Read& read) { return (read.row - read.column) * sign; };
  for (const Affine& known : reads.front().nonnegative) {
    const Affine candidate = known - slope(reads.front());
    const auto keeps = [&](const Read& read) {
      return read.domain.prove_nonnegative(slope(read) + candidate) == Proof::Holds;
    };
    if (is_of_dims(candidate) && std::ranges::all_of(reads, keeps)) return candidate;
  }
  return std::nullopt;
}

std::optional<Range> needed_columns(const ProductReads& reads) {
  if (reads.by_value || reads.reads.empty()) return std::nullopt;
  const Affine row(Symbol::dim(kProductRow));
  Range needed;
  if (const auto behind = distance(reads.reads, 1)) needed.highs.push_back({1, row + *behind});
  if (const auto before = distance(reads.reads, -1)) needed.lows.push_back({1, row - *before});
  return needed.lows.empty() && needed.highs.empty() ? std::nullopt : std::optional(std::move(needed));
}

}  // namespace

void find_needed_columns(FusedProgram& fused) {
  ReadsOfProducts products = single_matrices(fused);
  if (products.empty()) return;
  for (const Definition& definition : fused.program.definitions)
    add_reads(definition.body, Scope::of(definition), products);
  for (const auto& [name, reads] : products) reads.product->needed = needed_columns(reads);
}

}  // namespace moxie
