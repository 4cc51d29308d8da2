#include "compiler/rewrite/definitions/compared_elements.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>

#include "compiler/expression/functions.h"
#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Two terms of more nodes are not looked through.
constexpr int kLongestTerm = 200;

bool rounds(const Expr& body) {
  static constexpr std::array<std::string_view, 7> exact = {"neg", "abs", "min", "max", "where", "floor", "ceil"};
  bool reads = false, found = false;
  visit(body, [&](const Expr& e) {
    reads |= e->kind == NodeKind::Access;
    found |= e->kind == NodeKind::Call && e->function->result == ResultType::Number &&
             std::ranges::find(exact, e->function->name) == exact.end();
  });
  return reads && found;
}

/// A term and its sign: `-0.5*x` is 0.5*x with a minus.
struct Signed {
  Expr magnitude;
  bool is_negative = false;
};

Signed signed_term(const Expr& expr) {
  if (is_call(expr, "neg")) {
    const Signed inner = signed_term(expr->args[0]);
    return {inner.magnitude, !inner.is_negative};
  }
  if (!is_call(expr, "*")) return {expr};
  std::vector<Expr> factors;
  bool is_negative = false;
  for (const Expr& factor : expr->args) {
    const bool flips = factor->kind == NodeKind::Constant && factor->value < 0;
    is_negative ^= flips;
    factors.push_back(flips ? constant(-factor->value) : factor);
  }
  return {with_args(expr, std::move(factors)), is_negative};
}

/// Accesses to one tensor, at different subscripts.
using ReadPair = std::pair<Expr, Expr>;

/// Whether both are the same but for their indices; `reads` gets the elements in which they differ.
bool differ_in_indices(const Expr& a, const Expr& b, std::vector<ReadPair>& reads, int& nodes) {
  if (a == b) return true;
  if (++nodes > kLongestTerm || a->kind != b->kind || a->args.size() != b->args.size()) return false;
  switch (a->kind) {
    case NodeKind::IndexValue:
      return true;
    case NodeKind::Access:
      if (a->tensor != b->tensor || a->args != b->args) return false;
      reads.emplace_back(a, b);
      return true;
    case NodeKind::Call:
      return a->function == b->function &&
             std::ranges::all_of(std::views::iota(0u, a->args.size()), [&](std::size_t k) {
               return differ_in_indices(a->args[k], b->args[k], reads, nodes);
             });
    default:
      return false;
  }
}

/// Whether some indices in scope give both the same subscripts.
bool may_be_same_element(const ReadPair& pair, const IndexDomain& domain) {
  const auto& [a, b] = pair;
  for (std::size_t k = 0; k < a->subscripts.size(); ++k) {
    const Affine distance = a->subscripts[k] - b->subscripts[k];
    if (distance.mentions_value()) continue;
    for (const std::int64_t sign : {1, -1}) {
      if (domain.prove_nonnegative(distance * sign - Affine(1)) == Proof::Holds) return false;
    }
  }
  return true;
}

class ComparedElements {
 public:
  explicit ComparedElements(const Program& program) {
    for (const Definition& definition : program.definitions) {
      if (rounds(definition.body)) rounded_.insert(definition.name);
    }
    for (const Definition& definition : program.definitions) {
      rewrite_bottom_up(definition.body, Scope::of(definition), [this](const Expr& e, const Scope& scope) {
        add(e, scope);
        return e;
      });
    }
  }
  std::set<std::string> take() { return std::move(found_); }

 private:
  void add(const Expr& expr, const Scope& scope) {
    if (expr->kind != NodeKind::Call || expr->args.size() < 2) return;
    const bool compares = expr->function->result == ResultType::Truth;
    if (!compares && expr->function->name != "+") return;
    std::vector<Signed> terms;
    for (const Expr& arg : expr->args) {
      if (reads_rounded(arg)) terms.push_back(signed_term(arg));
    }
    for (std::size_t i = 0; i < terms.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (compares || terms[i].is_negative != terms[j].is_negative)
          add(terms[i].magnitude, terms[j].magnitude, scope);
      }
    }
  }

  void add(const Expr& a, const Expr& b, const Scope& scope) {
    std::vector<ReadPair> reads;
    int nodes = 0;
    if (!differ_in_indices(a, b, reads, nodes) || reads.empty()) return;
    IndexDomain domain({});
    for (const auto& [symbol, range] : scope.open) domain.add_range(symbol, range);
    if (!std::ranges::all_of(reads, [&](const ReadPair& pair) { return may_be_same_element(pair, domain); })) return;
    for (const ReadPair& pair : reads) {
      if (rounded_.contains(pair.first->tensor)) found_.insert(pair.first->tensor);
    }
  }

  bool reads_rounded(const Expr& expr) const {
    bool found = false;
    visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access && rounded_.contains(e->tensor); });
    return found;
  }

  std::set<std::string> rounded_, found_;
};

}  // namespace

std::set<std::string> compared_elements(const Program& program) { return ComparedElements(program).take(); }

}  // namespace moxie
