#include "compiler/expression/affine.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/hash.h"

namespace moxie {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result))
    throw CompileError("index arithmetic overflows 64 bits; use smaller extents or coefficients");
  return result;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    throw CompileError("index arithmetic overflows 64 bits; use smaller extents or coefficients");
  return result;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && (a < 0) ? 1 : 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + ((a % b != 0) && (a > 0) ? 1 : 0); }

std::int64_t Affine::coefficient(Symbol symbol) const {
  const auto it = std::ranges::lower_bound(terms_, symbol, {}, &Term::first);
  return it != terms_.end() && it->first == symbol ? it->second : 0;
}

bool Affine::mentions_value() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return term.first.is_value(); });
}

std::optional<Symbol> Affine::as_symbol() const {
  if (constant_ == 0 && terms_.size() == 1 && terms_[0].second == 1) return terms_[0].first;
  return std::nullopt;
}

Affine& Affine::operator+=(const Affine& other) {
  constant_ = checked_add(constant_, other.constant_);
  if (other.terms_.empty()) return *this;
  std::vector<Term> merged;
  merged.reserve(terms_.size() + other.terms_.size());
  auto a = terms_.cbegin();
  auto b = other.terms_.cbegin();
  while (a != terms_.cend() || b != other.terms_.cend()) {
    if (b == other.terms_.cend() || (a != terms_.cend() && a->first < b->first)) {
      merged.push_back(*a++);
    } else if (a == terms_.cend() || b->first < a->first) {
      merged.push_back(*b++);
    } else {
      const std::int64_t sum = checked_add(a->second, b->second);
      if (sum != 0) merged.emplace_back(a->first, sum);
      ++a, ++b;
    }
  }
  terms_ = std::move(merged);
  return *this;
}

Affine& Affine::operator*=(std::int64_t factor) {
  if (factor == 0) return *this = Affine();
  constant_ = checked_mul(constant_, factor);
  for (auto& [symbol, coefficient] : terms_) coefficient = checked_mul(coefficient, factor);
  return *this;
}

Affine Affine::substitute(const std::function<const Affine*(Symbol)>& replacement) const {
  if (const auto symbol = as_symbol()) {
    const Affine* with = replacement(*symbol);
    return with ? *with : *this;
  }
  Affine result(constant_);
  for (const auto& [symbol, coefficient] : terms_) {
    const Affine* with = replacement(symbol);
    result += (with ? *with : Affine(symbol)) * coefficient;
  }
  return result;
}

std::int64_t Affine::evaluate(const std::function<std::int64_t(Symbol)>& value) const {
  std::int64_t result = constant_;
  for (const auto& [symbol, coefficient] : terms_)
    result = checked_add(result, checked_mul(coefficient, value(symbol)));
  return result;
}

std::uint64_t Affine::hash() const {
  std::uint64_t h = mix(1, static_cast<std::uint64_t>(constant_));
  for (const auto& [symbol, coefficient] : terms_)
    h = mix(mix(h, symbol.hash()), static_cast<std::uint64_t>(coefficient));
  return h;
}

Affine clamped_extent(const Affine& size) {
  return size.is_constant() ? Affine(std::max<std::int64_t>(size.constant(), 0)) : size;
}

std::optional<Affine> Range::as_extent() const {
  const bool from_zero = lows.size() == 1 && lows[0] == Bound{1, Affine(0)};
  if (!from_zero || highs.size() != 1 || highs[0].divisor != 1) return std::nullopt;
  return highs[0].value + Affine(1);
}

std::optional<Affine> Range::known_trip_count() const {
  if (const std::optional<Affine> extent = as_extent()) return extent;
  if (lows.size() != 1 || highs.size() != 1 || lows[0].divisor != highs[0].divisor) return std::nullopt;
  // Exactly n of any n*d consecutive integers are multiples of d.
  const Affine between = highs[0].value - lows[0].value + Affine(1);
  const std::int64_t divisor = lows[0].divisor;
  const bool is_known = between.is_constant() && between.constant() >= 0 && between.constant() % divisor == 0;
  return is_known ? std::optional(Affine(between.constant() / divisor)) : std::nullopt;
}

bool Range::has_iterations() const {
  const auto count = known_trip_count();
  return count && count->is_constant() && count->constant() > 0;
}

Range Range::substitute(const std::function<const Affine*(Symbol)>& replacement) const {
  Range result = *this;
  for (auto* bounds : {&result.lows, &result.highs}) {
    for (Bound& bound : *bounds) bound.value = bound.value.substitute(replacement);
  }
  return result;
}

std::uint64_t Range::hash() const {
  std::uint64_t h = mix(2, lows.size());
  for (const auto* bounds : {&lows, &highs}) {
    for (const Bound& bound : *bounds) h = mix(mix(h, static_cast<std::uint64_t>(bound.divisor)), bound.value.hash());
  }
  return h;
}

}  // namespace moxie
