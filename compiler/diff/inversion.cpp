#include "compiler/diff/inversion.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/diff/fourier_motzkin.h"
#include "compiler/diff/guards.h"
#include "compiler/diff/smith.h"

namespace moxie {
namespace {

/// Pairs of rows e >= 0 and -e >= 0 become the equation e == 0: it is solved exactly, while elimination knows the
/// rationals only.
void extract_equalities(IterationDomain& domain) {
  std::vector<Affine> rest;
  for (const Affine& row : domain.nonnegative) {
    const auto opposite = std::ranges::find(rest, -row);
    if (opposite == rest.end()) {
      rest.push_back(row);
    } else {
      domain.zero.push_back(row);
      rest.erase(opposite);
    }
  }
  domain.nonnegative = std::move(rest);
}

/// coefficients * variables == targets
struct LinearSystem {
  IntMatrix coefficients;
  std::vector<Affine> targets;
};

LinearSystem linear_system(const std::vector<Symbol>& variables, const std::vector<Equation>& equations) {
  LinearSystem system{IntMatrix(equations.size(), variables.size()), {}};
  for (std::size_t i = 0; i < equations.size(); ++i) {
    Affine offset = equations[i].left;
    for (std::size_t j = 0; j < variables.size(); ++j) {
      const std::int64_t c = equations[i].left.coefficient(variables[j]);
      system.coefficients(i, j) = c;
      offset += Affine(variables[j]) * checked_mul(c, -1);
    }
    system.targets.push_back(equations[i].right - offset);
  }
  return system;
}

std::vector<Affine> product(const IntMatrix& matrix, const std::vector<Affine>& vector) {
  std::vector<Affine> result(matrix.rows());
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < matrix.cols(); ++j) result[i] += vector[j] * matrix(i, j);
  }
  return result;
}

bool mentions_dims_only(const Affine& affine) {
  return std::ranges::all_of(affine.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
}

bool mentions_any(const Affine& affine, const std::vector<SumLoop>& loops) {
  return std::ranges::any_of(loops, [&](const SumLoop& loop) { return affine.mentions(loop.index); });
}

/// Values of the transformed variables: the quotients, then one fresh symbol for every direction the equations leave
/// open.
std::vector<Affine> transformed_variables(const SmithForm& form, const std::vector<Affine>& targets,
                                          Preimage& preimage) {
  std::vector<Affine> values;
  for (std::size_t i = 0; i < form.rank; ++i) {
    const std::int64_t divisor = form.diagonal(i, i);
    if (divisor == 1) {
      values.push_back(targets[i]);
      continue;
    }
    const Symbol quotient = Symbol::fresh();
    preimage.quotients.push_back({quotient, {{{divisor, targets[i]}}, {{divisor, targets[i]}}}});
    values.emplace_back(quotient);
  }
  while (values.size() < form.diagonal.cols()) {
    const Symbol index = Symbol::fresh();
    preimage.loops.push_back({index, {}});
    values.emplace_back(index);
  }
  return values;
}

/// Whether a row counts another of the loops one by one and this one in longer steps: of 4*g <= f < 4*g + 4, the loop
/// over g has all of f's range inside, where the loop over f would have to look for g, which it often would not find.
bool steps_over_others(Symbol index, const std::vector<SumLoop>& loops, const std::vector<Affine>& rows) {
  return std::ranges::any_of(rows, [&](const Affine& row) {
    const auto is_counted = [&](const SumLoop& loop) { return std::abs(row.coefficient(loop.index)) == 1; };
    return std::abs(row.coefficient(index)) > 1 && std::ranges::any_of(loops, is_counted);
  });
}

/// Gives the loops their ranges and finds the guards.
void bound_loops(const IterationDomain& domain, KnownRanges known, Preimage& preimage) {
  std::vector<Affine> rows;
  for (const Affine& row : domain.nonnegative) {
    rows.push_back(row.substitute([&](Symbol symbol) -> const Affine* {
      const auto it = std::ranges::find(preimage.point, symbol, &std::pair<Symbol, Affine>::first);
      return it == preimage.point.end() ? nullptr : &it->second;
    }));
  }
  std::ranges::stable_partition(
      preimage.loops, [&](const SumLoop& loop) { return steps_over_others(loop.index, preimage.loops, rows); });
  std::vector<Symbol> indices;
  for (const SumLoop& loop : preimage.loops) indices.push_back(loop.index);
  Elimination elimination = eliminate(indices, rows);
  for (const SumLoop& loop : preimage.quotients) known.add(loop.index, loop.range);
  for (const Affine& row : elimination.given) {
    if (known.nonnegative(row)) continue;
    (mentions_any(row, preimage.quotients) ? preimage.inner_nonnegative : preimage.nonnegative).push_back(row);
  }
  for (const Affine& row : elimination.derived) {
    if (mentions_dims_only(row) || mentions_any(row, preimage.quotients) || known.nonnegative(row)) continue;
    preimage.derived.push_back(row);
  }
  for (std::size_t k = 0; k < preimage.loops.size(); ++k) {
    preimage.loops[k].range = known.without_redundant(elimination.ranges[k]);
    known.add(indices[k], preimage.loops[k].range);
  }
}

Expr nested_sums(const std::vector<SumLoop>& loops, Expr body) {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
    body = reduce(ReduceKind::Sum, loop->index, loop->range, body);
  return body;
}

}  // namespace

Preimage invert(const IterationDomain& given_domain, const std::vector<Equation>& given_equations,
                const KnownRanges& known) {
  IterationDomain domain = given_domain;
  extract_equalities(domain);
  std::vector<Equation> equations = given_equations;
  for (const Affine& row : domain.zero) equations.push_back({row, 0});

  const LinearSystem system = linear_system(domain.variables, equations);
  const SmithForm form = smith_form(system.coefficients);
  const std::vector<Affine> targets = product(form.left, system.targets);
  Preimage preimage;
  for (std::size_t i = form.rank; i < targets.size(); ++i) {
    if (targets[i] != Affine(0)) preimage.zero.push_back(targets[i]);
  }
  const std::vector<Affine> point = product(form.right, transformed_variables(form, targets, preimage));
  for (std::size_t j = 0; j < domain.variables.size(); ++j) preimage.point.emplace_back(domain.variables[j], point[j]);
  bound_loops(domain, known, preimage);
  return preimage;
}

Expr sum_over(const Preimage& preimage, const Expr& term) {
  const Expr inner = nested_sums(preimage.loops, substitute(term, preimage.point));
  return nested_sums(preimage.quotients, guarded({}, preimage.inner_nonnegative, inner));
}

Expr gather(const Preimage& preimage, const Expr& term) {
  const auto never = [](const Affine& row, bool holds) { return row.is_constant() && !holds; };
  const bool empty =
      std::ranges::any_of(preimage.zero, [&](const Affine& row) { return never(row, row.constant() == 0); }) ||
      std::ranges::any_of(preimage.nonnegative, [&](const Affine& row) { return never(row, row.constant() >= 0); });
  if (empty) return 0;
  return guarded(preimage.zero, preimage.nonnegative, sum_over(preimage, term));
}

}  // namespace moxie
