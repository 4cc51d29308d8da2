#include "compiler/ir/affine_parser.h"

#include <fmt/format.h>

namespace moxie {
namespace {

class AffineParser {
 public:
  AffineParser(TokenStream& tokens, const NameResolver& resolve) : tokens_(tokens), resolve_(resolve) {}

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
    result.lows = bounds("max", "ceil");
    tokens_.expect("..", "a range is written low..high");
    result.highs = bounds("min", "floor");
    for (Bound& high : result.highs) high.value += Affine(-high.divisor);  // the text is half open
    return result;
  }

 private:
  Affine product() {
    Affine result = factor();
    while (tokens_.at("*")) {
      const Token star = tokens_.next();
      const Affine right = factor();
      if (!result.is_constant() && !right.is_constant()) {
        tokens_.fail<TypeError>(star, "a product of two indices is not affine", "one factor must be an integer: 2*i");
      }
      result = result.is_constant() ? right * result.constant() : result * right.constant();
    }
    return result;
  }

  Affine factor() {
    const TokenStream::Nesting nesting(tokens_);
    if (tokens_.accept("-")) return -factor();
    if (tokens_.accept("(")) {
      Affine inner = sum();
      tokens_.expect(")");
      return inner;
    }
    if (tokens_.at_name()) return resolve_(tokens_.next());
    return tokens_.expect_integer("an index, a dim or an integer");
  }

  std::vector<Bound> bounds(std::string_view combine, std::string_view round) {
    if (!tokens_.accept(combine)) return {bound(round)};
    std::vector<Bound> result;
    tokens_.expect("(");
    do result.push_back(bound(round));
    while (tokens_.accept(","));
    tokens_.expect(")");
    return result;
  }

  Bound bound(std::string_view round) {
    if (!tokens_.accept(round)) return {1, sum()};
    tokens_.expect("(");
    const Affine numerator = product();
    tokens_.expect("/", fmt::format("write {}((2*i+1)/3)", round));
    const Token divisor_token = tokens_.peek();
    const std::int64_t divisor = tokens_.expect_integer("a positive integer");
    if (divisor == 0) tokens_.fail<ParseError>(divisor_token, "the divisor of a bound must be positive");
    tokens_.expect(")");
    return {divisor, numerator + Affine(divisor) * offset()};
  }

  std::int64_t offset() {
    if (tokens_.accept("+")) return tokens_.expect_integer("an integer");
    if (tokens_.accept("-")) return -tokens_.expect_integer("an integer");
    return 0;
  }

  TokenStream& tokens_;
  const NameResolver& resolve_;
};

}  // namespace

Affine parse_affine(TokenStream& tokens, const NameResolver& resolve) { return AffineParser(tokens, resolve).sum(); }

Range parse_range(TokenStream& tokens, const NameResolver& resolve) { return AffineParser(tokens, resolve).range(); }

std::vector<Affine> parse_affine_list(TokenStream& tokens, const NameResolver& resolve) {
  std::vector<Affine> result;
  if (tokens.accept("]")) return result;
  do result.push_back(parse_affine(tokens, resolve));
  while (tokens.accept(","));
  tokens.expect("]", "subscripts are affine in indices with integer coefficients, like x[2*i+k-1]");
  return result;
}

}  // namespace moxie
