#include "compiler/program/integer_element.h"

#include <algorithm>

#include "compiler/program/placeholders.h"

namespace moxie {
namespace {

class ElementSubstitution {
 public:
  ElementSubstitution(Symbol index, const IntegerElement& integer) : index_(index), integer_(integer) {}

  std::optional<Expr> run(const Expr& expr) {
    const Expr result = apply(expr);
    return fits_ ? std::optional(result) : std::nullopt;
  }

 private:
  Expr apply(const Expr& expr) {
    if (!expr->depends_on(index_)) return expr;
    if (expr->kind == NodeKind::IndexValue) return number(with_integer(expr->affine, 0));
    if (expr->kind == NodeKind::Access) return access(expr);
    const bool moves_range = expr->kind == NodeKind::Reduce && mentions(expr->range);
    const bool is_place = expr->kind == NodeKind::Random || expr->kind == NodeKind::LinearAlgebra;
    fits_ &= !moves_range && !is_place;
    return fits_ ? map_children(expr, [this](const Expr& child) { return apply(child); }) : expr;
  }

  Expr access(const Expr& expr) {
    std::vector<Expr> values;
    for (const Expr& value : expr->args) values.push_back(apply(value));
    std::vector<Affine> subscripts;
    for (const Affine& subscript : expr->subscripts) subscripts.push_back(with_integer(subscript, values.size()));
    values.insert(values.end(), integer_.values.begin(), integer_.values.end());
    return tensor_access(expr->tensor, std::move(subscripts), std::move(values));
  }

  /// The values of the integer stand behind as many others.
  Affine with_integer(const Affine& affine, std::size_t others) const {
    Affine integer(integer_.affine.constant());
    for (const auto& [symbol, coefficient] : integer_.affine.terms()) {
      const Symbol moved =
          symbol.is_value() ? Symbol::value(static_cast<std::uint32_t>(symbol.number() + others)) : symbol;
      integer += Affine(moved) * coefficient;
    }
    return affine.substitute([&](Symbol symbol) { return symbol == index_ ? &integer : nullptr; });
  }

  Expr number(const Affine& affine) const {
    Affine known(affine.constant());
    std::vector<Expr> terms;
    for (const auto& [symbol, coefficient] : affine.terms()) {
      if (symbol.is_value())
        terms.push_back(times(coefficient, integer_.values.at(symbol.number())));
      else
        known += Affine(symbol) * coefficient;
    }
    if (terms.empty() || known != Affine(0)) terms.push_back(number_of(known));
    return terms.size() == 1 ? terms[0] : call("+", std::move(terms));
  }

  static Expr times(std::int64_t coefficient, const Expr& value) {
    return coefficient == 1 ? value : call("*", {constant(static_cast<double>(coefficient)), value});
  }

  bool mentions(const Range& range) const {
    const auto moves = [this](const Bound& bound) { return bound.value.mentions(index_); };
    return std::ranges::any_of(range.lows, moves) || std::ranges::any_of(range.highs, moves);
  }

  const Symbol index_;
  const IntegerElement& integer_;
  bool fits_ = true;
};

}  // namespace

std::optional<Expr> substitute_element(const Expr& expr, Symbol index, const IntegerElement& integer) {
  return ElementSubstitution(index, integer).run(expr);
}

}  // namespace moxie
