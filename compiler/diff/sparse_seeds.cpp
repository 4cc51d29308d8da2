#include "compiler/diff/sparse_seeds.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/diff/chain.h"
#include "compiler/diff/gates.h"
#include "compiler/diff/known_ranges.h"
#include "compiler/diff/open_definition.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// where(all tests, value, 0)
struct SeededTerm {
  std::vector<Expr> tests;
  Expr value;
};
/// Their sum.
using SeededTerms = std::vector<SeededTerm>;

bool calls(const Expr& expr, std::string_view name) {
  return expr->kind == NodeKind::Call && expr->function->name == name;
}

Expr where_all(const std::vector<Expr>& tests, const Expr& value) {
  if (tests.empty() || value->is_constant(0)) return value;
  return call("where", {tests.size() == 1 ? tests[0] : call("and", tests), value, 0});
}

Expr sum_of_terms(const SeededTerms& terms) {
  Expr sum = 0;
  for (const SeededTerm& term : terms) sum = accumulate(sum, where_all(term.tests, term.value));
  return sum;
}

void add_tests(std::vector<Expr>& tests, const std::vector<Expr>& more) {
  for (const Expr& test : more) {
    if (std::ranges::find(tests, test) == tests.end()) tests.push_back(test);
  }
}

void add_term(SeededTerms& terms, SeededTerm term) {
  if (term.value->is_constant(0)) return;
  const auto same = std::ranges::find(terms, term.tests, &SeededTerm::tests);
  if (same == terms.end())
    terms.push_back(std::move(term));
  else
    same->value = accumulate(same->value, term.value);
}

/// What the test says `symbol` is equal to, if it does.
std::optional<Affine> solution_of(const Expr& test, Symbol symbol) {
  if (!calls(test, "==")) return std::nullopt;
  const Expr &left = test->args[0], &right = test->args[1];
  if (left->kind != NodeKind::IndexValue || right->kind != NodeKind::IndexValue) return std::nullopt;
  const Affine difference = left->affine - right->affine;
  const std::int64_t factor = difference.coefficient(symbol);
  if (factor != 1 && factor != -1) return std::nullopt;
  return (difference - Affine(symbol) * factor) * -factor;
}

bool is_identity(const Expr& test) { return calls(test, "==") && test->args[0] == test->args[1]; }

class SparseSeeds {
 public:
  SparseSeeds(const Program& program, const std::vector<Symbol>& seeds, const std::vector<Affine>& extents)
      : program_(program), seeds_(seeds), extents_(extents), names_(program) {}

  Program run() {
    Program result = program_;
    result.definitions.clear();
    for (const Definition& definition : program_.definitions) {
      Definition sparse = definition;
      if (!definition.scan && depends(definition.body)) rewrite(sparse, result);
      result.definitions.push_back(std::move(sparse));
    }
    return result;
  }

 private:
  void rewrite(Definition& definition, Program& result) {
    known_.emplace(program_.dims);
    for (std::size_t k = 0; k < seeds_.size(); ++k) known_->add(seeds_[k], Range::extent(extents_[k]));
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) known_->add(Symbol::axis(k), definition.axes[k].range);
    const SeededTerms terms = terms_of(definition.body);
    definition.body = sum_of_terms(terms);
    if (terms.size() != 1 || !mentions_seed(terms[0].tests)) return;
    sparse_[definition.name] = terms[0].value->height == 0 ? terms[0] : stored(definition, terms[0], result);
  }

  /// The value of a term in a definition of its own, without the seeds that the tests fix; the definition reads it.
  SeededTerm stored(Definition& definition, const SeededTerm& term, Program& result) {
    Definition value = definition;
    value.name = names_.free_name(definition.name + ".value");
    names_.reserve(value.name);
    value.output = false;
    value.role = OutputRole::Value;
    value.body = term.value;
    std::vector<Expr> tests = term.tests;
    for (const Symbol seed : seeds_) {
      const auto fixing =
          std::ranges::find_if(tests, [&](const Expr& test) { return solution_of(test, seed).has_value(); });
      if (fixing == tests.end()) continue;
      const Replacement fixed = {{seed, *solution_of(*fixing, seed)}};
      value.body = substitute(value.body, fixed);
      for (Expr& test : tests) test = substitute(test, fixed);
    }
    std::erase_if(tests, is_identity);
    value.body = where_all(tests, value.body);
    const SeededTerm read{term.tests, tensor_access(value.name, own_axes(value.axes.size()))};
    result.definitions.push_back(std::move(value));
    definition.body = where_all(read.tests, read.value);
    return read;
  }

  // ---- Which expressions depend on seeds ----

  bool mentions_seed(const std::vector<Expr>& tests) const {
    return std::ranges::any_of(tests, [&](const Expr& test) {
      return std::ranges::any_of(seeds_, [&](Symbol seed) { return test->depends_on(seed); });
    });
  }

  bool depends(const Expr& expr) const {
    bool found = std::ranges::any_of(seeds_, [&](Symbol seed) { return expr->depends_on(seed); });
    visit(expr, [&](const Expr& e) { found = found || (e->kind == NodeKind::Access && sparse_.contains(e->tensor)); });
    return found;
  }

  // ---- Expressions as sums of terms ----

  SeededTerms terms_of(const Expr& expr) {
    if (!depends(expr)) return {{{}, expr}};
    if (expr->kind == NodeKind::Access) return of_access(expr);
    if (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum) return of_sum(expr);
    if (expr->kind == NodeKind::Call) {
      const std::string_view name = expr->function->name;
      if (name == "where") return of_choice(expr);
      if (name == "*") return of_product(expr);
      if (name == "+") return of_addition(expr);
      if (name == "neg" || name == "f32" || name == "f64" || name == "/") return of_linear(expr);
    }
    return {{{}, expr}};
  }

  SeededTerms of_access(const Expr& access) const {
    const auto known = sparse_.find(access->tensor);
    if (known == sparse_.end() || reads_by_value(access)) return {{{}, access}};
    const Replacement element = axes_by_subscripts(access);
    SeededTerm term{{}, substitute(known->second.value, element)};
    for (const Expr& test : known->second.tests) add_tests(term.tests, {substitute(test, element)});
    return {term};
  }

  SeededTerms of_choice(const Expr& choice) {
    const Expr& truth = choice->args[0];
    const bool is_mask = choice->args[2]->is_constant(0);
    if (!is_mask) return {{{}, choice}};
    const bool by_index = !depends_on_values(truth);
    const std::vector<Expr> tests = calls(truth, "and") ? truth->args : std::vector<Expr>{truth};
    SeededTerms result;
    for (const SeededTerm& below : terms_of(choice->args[1])) {
      SeededTerm term{{}, by_index ? below.value : call("where", {truth, below.value, 0})};
      if (by_index) add_tests(term.tests, tests);
      add_tests(term.tests, below.tests);
      add_term(result, std::move(term));
    }
    return result;
  }

  SeededTerms of_product(const Expr& product) {
    SeededTerms result = {{{}, 1}};
    for (const Expr& factor : product->args) {
      SeededTerms longer;
      for (const SeededTerm& below : terms_of(factor)) {
        for (const SeededTerm& term : result) {
          SeededTerm both{term.tests, chain(below.value, term.value)};
          add_tests(both.tests, below.tests);
          add_term(longer, std::move(both));
        }
      }
      result = std::move(longer);
    }
    return result;
  }

  SeededTerms of_addition(const Expr& addition) {
    SeededTerms result;
    for (const Expr& arg : addition->args) {
      for (SeededTerm& term : terms_of(arg)) add_term(result, std::move(term));
    }
    return result;
  }

  /// The call is linear in its first argument, so it is taken of every term.
  SeededTerms of_linear(const Expr& expr) {
    SeededTerms result;
    for (SeededTerm& term : terms_of(expr->args[0])) {
      std::vector<Expr> args = expr->args;
      args[0] = term.value;
      add_term(result, {std::move(term.tests), with_args(expr, std::move(args))});
    }
    return result;
  }

  SeededTerms of_sum(const Expr& sum) {
    const OpenedReduce opened = open(sum);
    SeededTerms result;
    for (const SeededTerm& term : terms_of(opened.body)) add_term(result, summed(opened.index, opened.range, term));
    return result;
  }

  SeededTerm summed(Symbol index, const Range& range, const SeededTerm& term) const {
    for (const Expr& test : term.tests) {
      if (const auto only = solution_of(test, index)) return at(index, range, *only, term);
    }
    SeededTerm result;
    std::vector<Expr> inside;
    for (const Expr& test : term.tests) (test->depends_on(index) ? inside : result.tests).push_back(test);
    result.value = reduce(ReduceKind::Sum, index, range, where_all(inside, term.value));
    return result;
  }

  /// The one iteration that the tests admit, if it is in the range.
  SeededTerm at(Symbol index, const Range& range, const Affine& only, const SeededTerm& term) const {
    const Replacement fixed = {{index, only}};
    SeededTerm result{{}, substitute(term.value, fixed)};
    const auto require = [&](const Affine& high, const Affine& low) {
      if (!known_->nonnegative(high - low))
        add_tests(result.tests, {call(">=", {index_value(high), index_value(low)})});
    };
    for (const Bound& low : range.lows) require(only * low.divisor, low.value);
    for (const Bound& high : range.highs) require(high.value, only * high.divisor);
    for (const Expr& test : term.tests) {
      const Expr there = substitute(test, fixed);
      if (!is_identity(there)) add_tests(result.tests, {there});
    }
    return result;
  }

  const Program& program_;
  const std::vector<Symbol>& seeds_;
  const std::vector<Affine>& extents_;
  ProgramBuilder names_;
  std::map<std::string, SeededTerm, std::less<>> sparse_;
  std::optional<KnownRanges> known_;  // holds in the definition that is rewritten
};

}  // namespace

Program with_sparse_seeds(const Program& program, const std::vector<Symbol>& seeds,
                          const std::vector<Affine>& extents) {
  return SparseSeeds(program, seeds, extents).run();
}

}  // namespace moxie
