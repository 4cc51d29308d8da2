#include "compiler/rewrite/products/known_contractions.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/rewrite/patterns/library_product.h"
#include "compiler/rewrite/patterns/product_form.h"

namespace moxie {
namespace {

/// Sums of more factors are not searched: there are too many ways to choose some of them.
constexpr std::size_t kMaxFactors = 16;

bool is_element(const Factor& factor) {
  const Expr& base = factor.base;
  const auto is_symbol = [](const Affine& subscript) { return subscript.as_symbol().has_value(); };
  return factor.power == 1 && base->kind == NodeKind::Access && base->args.empty() && !base->subscripts.empty() &&
         std::ranges::all_of(base->subscripts, is_symbol);
}

bool is_one_of(const std::vector<Expr>& factors, Symbol symbol) {
  return std::ranges::any_of(factors, [&](const Expr& factor) { return factor->depends_on(symbol); });
}

std::optional<KnownContraction> contraction_of(const Algebra& algebra, const Definition& definition) {
  if (definition.scan || definition.recomputed || !is_sum(definition.body) ||
      !std::ranges::all_of(definition.axes, is_dense))
    return std::nullopt;
  const FlatSum sum = flat_sum(algebra, definition.body, Scope::of(definition));
  if (sum.coefficient != 1 || sum.factors.size() < 2 || sum.factors.size() > kMaxFactors || !is_box(sum.scope) ||
      !std::ranges::all_of(sum.factors, is_element))
    return std::nullopt;
  KnownContraction contraction{definition.name, sum.scope};
  contraction.scope.dtype = definition.dtype;
  for (const Factor& factor : sum.factors) contraction.factors.push_back(factor.base);
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) contraction.axes.push_back(Symbol::axis(k));
  const bool sees_all =
      std::ranges::all_of(sum.scope.open, [&](const auto& open) { return is_one_of(contraction.factors, open.first); });
  return sees_all ? std::optional(std::move(contraction)) : std::nullopt;
}

/// The factors whose contraction the element of `part` is. What is summed over in it gets symbols of its own.
std::vector<Expr> opened(const KnownContraction& part, const Expr& element, Scope& scope) {
  Replacement symbols;
  for (const auto& [symbol, range] : part.scope.open) {
    const auto axis = std::ranges::find(part.axes, symbol);
    if (axis != part.axes.end()) {
      symbols.emplace_back(symbol, element->subscripts[static_cast<std::size_t>(axis - part.axes.begin())]);
      continue;
    }
    const Symbol own = Symbol::fresh();
    scope = scope.with(own, range);
    symbols.emplace_back(symbol, Affine(own));
  }
  std::vector<Expr> factors;
  for (const Expr& factor : part.factors) factors.push_back(substitute(factor, symbols));
  return factors;
}

/// Ways to see the factors of a contraction among those of a sum.
class PartSearch {
 public:
  PartSearch(const KnownContraction& contraction, const FlatSum& sum, std::vector<KnownPart>& found)
      : contraction_(contraction), sum_(sum), found_(found) {
    extend(0);
  }

 private:
  /// Maps symbols of the contraction to those of the sum, each to one of its own.
  using Images = std::map<Symbol, Symbol>;

  void extend(std::size_t factor) {
    if (factor == contraction_.factors.size()) {
      if (is_whole()) found_.push_back({taken_, read()});
      return;
    }
    for (std::size_t k = 0; k < sum_.factors.size(); ++k) {
      if ((taken_ >> k & 1) != 0 || !is_element(sum_.factors[k])) continue;
      const Images before = images_;
      if (unify(contraction_.factors[factor], sum_.factors[k].base)) {
        taken_ |= std::uint64_t{1} << k;
        extend(factor + 1);
        taken_ &= ~(std::uint64_t{1} << k);
      }
      images_ = before;
    }
  }

  bool unify(const Expr& own, const Expr& other) {
    if (own->tensor != other->tensor) return false;
    for (std::size_t k = 0; k < own->subscripts.size(); ++k) {
      if (!map(*own->subscripts[k].as_symbol(), *other->subscripts[k].as_symbol())) return false;
    }
    return true;
  }

  bool map(Symbol own, Symbol other) {
    if (const auto known = images_.find(own); known != images_.end()) return known->second == other;
    const bool is_taken = std::ranges::any_of(images_, [&](const auto& image) { return image.second == other; });
    const Range* range = sum_.scope.find(other);
    if (is_taken || !range || *range != *contraction_.scope.find(own)) return false;
    images_.emplace(own, other);
    return true;
  }

  /// Whether the sum sums over the same, and over nothing that the other factors see.
  bool is_whole() const {
    return std::ranges::all_of(images_, [&](const auto& image) {
      if (std::ranges::find(contraction_.axes, image.first) != contraction_.axes.end()) return true;
      return is_among(sum_.summed, image.second) && !others_see(image.second);
    });
  }

  bool others_see(Symbol symbol) const {
    for (std::size_t k = 0; k < sum_.factors.size(); ++k) {
      if ((taken_ >> k & 1) == 0 && sum_.factors[k].base->depends_on(symbol)) return true;
    }
    return false;
  }

  Expr read() const {
    std::vector<Affine> subscripts;
    for (const Symbol axis : contraction_.axes) subscripts.emplace_back(images_.at(axis));
    return tensor_access(contraction_.name, std::move(subscripts));
  }

  const KnownContraction& contraction_;
  const FlatSum& sum_;
  std::vector<KnownPart>& found_;
  std::uint64_t taken_ = 0;
  Images images_;
};

}  // namespace

void KnownContractions::add(const Algebra& algebra, const Definition& definition) {
  auto contraction = contraction_of(algebra, definition);
  if (!contraction) return;
  KnownContraction whole{contraction->name, contraction->scope, contraction->axes};
  for (const Expr& factor : contraction->factors) {
    const auto part = std::ranges::find(known_, factor->tensor, &KnownContraction::name);
    const auto factors = part == known_.end() ? std::vector{factor} : opened(*part, factor, whole.scope);
    std::ranges::copy(factors, std::back_inserter(whole.factors));
  }
  // Readers find the first of a name, which is the one of tensors that are no contractions themselves.
  const bool is_nested = whole.factors.size() > contraction->factors.size();
  if (whole.factors.size() <= kMaxFactors) known_.push_back(std::move(whole));
  if (is_nested) known_.push_back(std::move(*contraction));
}

std::vector<KnownPart> KnownContractions::parts_of(const FlatSum& sum) const {
  std::vector<KnownPart> parts;
  if (sum.factors.size() > kMaxFactors) return parts;
  for (const KnownContraction& contraction : known_) {
    if (contraction.factors.size() <= sum.factors.size() && contraction.scope.dtype == sum.scope.dtype)
      PartSearch(contraction, sum, parts);
  }
  return parts;
}

}  // namespace moxie
