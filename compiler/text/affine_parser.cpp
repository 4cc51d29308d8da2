#include "compiler/text/affine_parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace moxie {
namespace {

bool at_division(const TokenStream& tokens) { return tokens.at("/") || tokens.at("//") || tokens.at("%"); }

class AffineParser {
 public:
  AffineParser(TokenStream& tokens, const NameResolver& resolve, const IntegerForms* forms)
      : tokens_(tokens), resolve_(resolve), forms_(forms) {}

  Affine sum() {
    Affine result = product();
    while (true) {
      if (tokens_.accept("+"))
        result += product();
      else if (tokens_.accept("-"))
        result += -product();
      else
        return result;
    }
  }

  Range range() {
    Range result;
    result.lows = bounds("max", End::Low);
    tokens_.expect("..", "a range is written low..high");
    result.highs = bounds("min", End::High);
    for (Bound& high : result.highs) high.value += Affine(-high.divisor);  // the text is half open
    return result;
  }

 private:
  Affine product() {
    Affine result = factor();
    while (true) {
      if (forms_ && at_division(tokens_)) {
        result = quotient(result);
        continue;
      }
      if (at_division(tokens_) && divides_integers_ && integer_of(result)) {
        result = quotient_of_integers(*integer_of(result));
        continue;
      }
      if (!tokens_.at("*")) return result;
      const Token star = tokens_.next();
      const Affine right = factor();
      const std::optional<std::int64_t> times = integer_of(result), of_right = integer_of(right);
      if (!times && !of_right) {
        tokens_.fail<TypeError>(star, "a product of two indices, or dims without values, is not affine",
                                "one factor must be an integer, or a dim that has a value in the text: dim P = 4");
      }
      result = times ? right * *times : result * *of_right;
    }
  }

  /// A constant, or dims that have a value in the text.
  std::optional<std::int64_t> integer_of(const Affine& factor) const {
    if (factor.is_constant()) return factor.constant();
    const auto is_dim = [](const Affine::Term& term) { return term.first.is_dim(); };
    return std::ranges::all_of(factor.terms(), is_dim) ? resolve_.value_of(factor) : std::nullopt;
  }

  Affine quotient(const Affine& value) {
    const Token mark = tokens_.next();
    if (value.mentions_value()) {
      tokens_.fail<TypeError>(mark, "an element of a tensor cannot be divided in a subscript",
                              "name the quotient: let half[s]: i32 = idx[s]//2");
    }
    const Token at = tokens_.peek();
    const std::optional<Affine> result = forms_->divided(mark.text, value, factor());
    if (!result) fail_divisor(tokens_, at);
    return *result;
  }

  /// K/G in a shape, of dims that have values in the text.
  Affine quotient_of_integers(std::int64_t value) {
    const Token mark = tokens_.next();
    const Token at = tokens_.peek();
    const std::optional<std::int64_t> divisor = integer_of(factor());
    if (!divisor || *divisor <= 0) {
      tokens_.fail<TypeError>(at, "what divides a dim is a positive integer",
                              "write an integer, or a dim that has a value in the text: dim G = 32");
    }
    if (mark.text == "%") return value - *divisor * floor_div(value, *divisor);
    if (mark.text == "/" && value % *divisor != 0) {
      tokens_.fail<TypeError>(mark, fmt::format("{} is no multiple of {}", value, *divisor), "`//` rounds down: K//G");
    }
    return floor_div(value, *divisor);
  }

  Affine factor() {
    const TokenStream::Nesting nesting(tokens_);
    if (tokens_.accept("-")) return -factor();
    if (tokens_.accept("(")) {
      Affine inner = sum();
      tokens_.expect(")");
      return inner;
    }
    if (forms_ && tokens_.at("[")) return forms_->table(tokens_.next());
    if (tokens_.at_name()) {
      const Token name = tokens_.next();
      if (forms_ && tokens_.at("(")) {
        if (const std::optional<Affine> chosen = forms_->call(name)) return *chosen;
      }
      return resolve_.resolve(name);
    }
    return tokens_.expect_integer("an index, a dim or an integer");
  }

  enum class End : std::uint8_t { Low, High };

  std::vector<Bound> bounds(std::string_view combine, End end) {
    if (!tokens_.accept(combine)) return {bound(end)};
    std::vector<Bound> result;
    tokens_.expect("(");
    do result.push_back(bound(end));
    while (tokens_.accept(","));
    tokens_.expect(")");
    return result;
  }

  Bound bound(End end) {
    for (const std::string_view round : {"ceil", "floor"}) {
      if (tokens_.accept(round)) return rounded_bound(end, round);
    }
    const Affine whole = sum();
    refuse_division(tokens_);
    return {1, whole};
  }

  /// An index from ceil(a/k) on is one with k*i >= a, below floor(a/k) one with k*(i+1) <= a. The other way of rounding
  /// is that of another number: floor(a/k) = ceil((a-k+1)/k).
  Bound rounded_bound(End end, std::string_view round) {
    tokens_.expect("(");
    divides_integers_ = false;
    const Affine numerator = product();
    divides_integers_ = true;
    tokens_.expect("/", fmt::format("write {}((2*i+1)/3)", round));
    const Token at = tokens_.peek();
    const std::optional<std::int64_t> divisor = integer_of(factor());
    if (!divisor) fail_divisor(tokens_, at);
    if (*divisor <= 0) tokens_.fail<ParseError>(at, "the divisor of a bound must be positive");
    tokens_.expect(")");
    std::int64_t moved = 0;
    if (end == End::Low && round == "floor") moved = 1 - *divisor;
    if (end == End::High && round == "ceil") moved = *divisor - 1;
    return {*divisor, numerator + Affine(*divisor) * offset() + Affine(moved)};
  }

  std::int64_t offset() {
    if (tokens_.accept("+")) return tokens_.expect_integer("an integer");
    if (tokens_.accept("-")) return -tokens_.expect_integer("an integer");
    return 0;
  }

  TokenStream& tokens_;
  const NameResolver& resolve_;
  const IntegerForms* forms_;
  bool divides_integers_ = true;  // not below floor and ceil, whose division is that of a bound
};

}  // namespace

void fail_divisor(const TokenStream& tokens, const Token& at) {
  tokens.fail<TypeError>(at, "an index is divided by a positive integer that the text tells",
                         "write an integer, or a dim that has a value: dim K = 4; any dim may stand where the quotient "
                         "lies between -8 and 8, as in x[(i+1)%N] with i < N");
}

void refuse_division(const TokenStream& tokens) {
  if (!at_division(tokens)) return;
  tokens.fail<TypeError>(tokens.peek(), "no quotient may stand here",
                         "shapes are affine: give N a value in the text, dim N = 64, or for N/2 declare a dim H, and "
                         "write 2*H for N; subscripts of tensors and tables divide indices, x[i/2], and ends of "
                         "ranges are written ceil(i/2) and floor(i/2)+1");
}

Affine parse_affine(TokenStream& tokens, const NameResolver& resolve, const IntegerForms* forms) {
  const Affine result = AffineParser(tokens, resolve, forms).sum();
  refuse_division(tokens);
  return result;
}

Range parse_range(TokenStream& tokens, const NameResolver& resolve) {
  return AffineParser(tokens, resolve, nullptr).range();
}

std::vector<Affine> parse_affine_list(TokenStream& tokens, const NameResolver& resolve, const IntegerForms* forms) {
  std::vector<Affine> result;
  if (tokens.accept("]")) return result;
  do result.push_back(parse_affine(tokens, resolve, forms));
  while (tokens.accept(","));
  tokens.expect("]", "subscripts are affine in indices with integer coefficients, like x[2*i+k-1]");
  return result;
}

}  // namespace moxie
