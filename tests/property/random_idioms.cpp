// The structures that rewrites look for, with random contents.
#include <limits>

#include "compiler/program/placeholders.h"
#include "tests/property/random_expr.h"

namespace moxie::test {
namespace {

constexpr double kMostRounds = 20000;

Expr square(const Expr& x) { return call("pow", {x, 2}); }
Expr exponential(const Expr& x) { return call("exp", {x}); }
Expr at(const Expr& expr, Symbol from, Symbol to) { return substitute(expr, {{from, Affine(to)}}); }

}  // namespace

/// sum[k](a[..k..] * b[..k..]): a matrix product where the extents are long.
Expr RandomExpr::contraction(const Place& place) {
  const Affine size = extent();
  if (place.rounds * size_of(size) > kMostRounds) return read(place);
  const Symbol k = Symbol::fresh();
  const Place inner = place.with(k, size, Range::extent(size), size_of(size));
  const Expr body = read(inner, k) * read(inner, k);
  const Expr total = reduce(ReduceKind::Sum, k, Range::extent(size), random_.chance(20) ? body * Expr(0.5) : body);
  return random_.chance(25) ? Expr(-0.5) * total : total;
}

/// x[r+t] of an input that holds one element for every sum, as equispaced points have.
Expr RandomExpr::read_at_sum(const Place& place, Symbol r, Symbol t) {
  const Affine sum = Affine(r) + Affine(t);
  for (const InputDecl& input : program_.inputs) {
    if (input.shape.size() != 1) continue;
    if (place.domain.prove_nonnegative(input.shape[0] - sum - Affine(1)) == Proof::Holds)
      return tensor_access(input.name, {sum});
  }
  return number_of(sum) * Expr(0.25);
}

/// A factor that is the same for r, t exchanged, or depends on r + t only.
Expr RandomExpr::pair_kernel(const Place& place, Symbol r, Symbol t) {
  const Expr one = read(place, r);
  const Expr other = at(one, r, t);
  const Expr middle = number_of(Affine(r) + Affine(t)) * Expr(0.125);
  switch (random_.between(0, 6)) {
    case 0:
      return one * other;
    case 1:
      return exponential(-square(one - other));
    case 2:
      return exponential(-square(read(place) - middle) / positive(place, 1));
    case 3:
      return call("tanh", {one + other});
    case 4:
      return read_at_sum(place, r, t);
    case 5:
      return exponential(-(square(one) + square(other))) * middle;
    default:
      return square(one - read(place)) + square(other - read(place));
  }
}

Expr RandomExpr::pair_weight(const Place& place, Symbol r, Symbol t) {
  const Expr one = read(place, r);
  switch (random_.between(0, 4)) {
    case 0:
      return one * at(one, r, t);
    case 1:
      return one - read(place, t) * read(place, r);
    case 2:
      return call("where", {call("==", {number_of(Affine(r)), number_of(Affine(t))}), one, Expr(0.5)});
    case 3:
      return number(place, 1);
    default:
      return one;
  }
}

Expr RandomExpr::double_sum(const Place& place) {
  const Affine size = extent();
  if (place.rounds * size_of(size) * size_of(size) > kMostRounds) return contraction(place);
  const Symbol r = Symbol::fresh();
  const Symbol t = Symbol::fresh();
  const Place outer = place.with(r, size, Range::extent(size), size_of(size));
  const Range second = random_.chance(75) ? Range::extent(size) : range(outer, size, false);
  const Place inner = outer.with(t, size, second, size_of(size));
  const Expr kernel = pair_kernel(inner, r, t);
  const Expr body = random_.chance(80) ? pair_weight(inner, r, t) * kernel : kernel;
  return reduce(ReduceKind::Sum, r, Range::extent(size), reduce(ReduceKind::Sum, t, second, body));
}

Expr RandomExpr::gaussian(const Place& place) {
  const Expr scale = positive(place, 1);
  const Expr bell = exponential(-square(read(place) - read(place)) / (Expr(2) * scale));
  return random_.chance(50) ? bell : call("sqrt", {scale / (scale + Expr(0.5))}) * bell;
}

/// Exponentials that merge, or split where a part is fixed in a long loop.
Expr RandomExpr::split_exponent(const Place& place) {
  const Expr a = read(place);
  const Expr b = read(place);
  switch (random_.between(0, 3)) {
    case 0:
      return exponential(-(square(a) + square(b)));
    case 1:
      return exponential(-call("abs", {a}) - square(b)) * exponential(-call("abs", {b}));
    case 2:
      return exponential(call("tanh", {a})) / exponential(call("sin", {b}));
    default:
      return square(exponential(-square(a))) * exponential(call("sin", {a + b}));
  }
}

Expr RandomExpr::softmax(const Place& place) {
  const Affine size = extent();
  if (place.rounds * size_of(size) > kMostRounds) return gaussian(place);
  const Symbol j = Symbol::fresh();
  const Range all = Range::extent(size);
  const Place inner = place.with(j, size, all, size_of(size));
  const Expr logit = bounded(inner, 2) + read(inner, j);
  const Expr total = reduce(ReduceKind::LogSumExp, j, all, logit);
  const std::vector<Symbol> own = place.over(size);
  return own.empty() ? total : exponential(at(logit, j, own.front()) - total);
}

Expr RandomExpr::factored_sum(const Place& place) {
  const Affine size = extent();
  if (place.rounds * size_of(size) > kMostRounds) return read(place);
  const Symbol k = Symbol::fresh();
  const Range all = range(place, size, false);
  const Place inner = place.with(k, size, all, size_of(size));
  const Expr body = (read(inner, k) + read(place)) * (read(place) - read(inner, k)) * number(place, 1);
  return reduce(ReduceKind::Sum, k, all, body);
}

Expr RandomExpr::index_polynomial(const Place& place) {
  if (place.indices.empty()) return read(place);
  const Symbol i = random_.pick(place.indices).symbol;
  const Symbol j = random_.pick(place.indices).symbol;
  const Expr step = number_of(Affine(i) - Affine(j) + Affine(random_.between(-1, 1))) * Expr(0.125);
  switch (random_.between(0, 2)) {
    case 0:
      return step * read(place) * (read(place) + step);
    case 1:
      return call("tanh", {square(step) + read(place)});
    default:
      return exponential(-square(step - read(place)));
  }
}

/// Compares an index with others.
Expr RandomExpr::index_test(const Place& place, Symbol index) {
  const char* comparison = random_.pick<const char*>({"<", "<=", ">", ">=", "==", "!="});
  const Affine other = place.indices.empty() ? Affine(1) : Affine(random_.pick(place.indices).symbol);
  const Affine left = Affine(index) * random_.pick<std::int64_t>({1, 1, 1, -1, 2});
  return call(comparison, {number_of(left), number_of(other + Affine(random_.between(-2, 2)))});
}

/// A sum whose terms are zero where a condition on its index fails.
Expr RandomExpr::masked_sum(const Place& place) {
  const Affine size = extent();
  if (place.rounds * size_of(size) > kMostRounds) return read(place);
  const Symbol k = Symbol::fresh();
  const Range all = range(place, size, false);
  const Place inner = place.with(k, size, all, size_of(size));
  Expr test = index_test(inner, k);
  if (random_.chance(40)) test = call(random_.chance(70) ? "and" : "or", {test, index_test(inner, k)});
  if (random_.chance(20)) test = call("not", {test});
  const auto term = [&]() -> Expr {
    switch (random_.between(0, 3)) {
      case 0:
        return call("where", {test, read(inner, k), 0}) * positive(inner, 1);
      case 1:
        return exponential(call("where", {test, bounded(inner, 1), -std::numeric_limits<double>::infinity()}));
      case 2:
        return call("where", {index_test(inner, k), bounded(inner, 1), call("where", {test, read(inner, k), 0})});
      default:
        return call("where", {test, read(inner, k) * read(inner), 0});
    }
  };
  return reduce(ReduceKind::Sum, k, all, term());
}

/// Linear algebra inside an expression, on x x^T + c I for some matrix x.
Expr RandomExpr::algebra_chain(const Place& place) {
  std::vector<Affine> sizes;
  for (const DimDecl& dim : program_.dims) {
    if (!dim.dynamic && dims_.at(dim.name) >= 1 && dims_.at(dim.name) <= 5) sizes.emplace_back(Symbol::dim(dim.name));
  }
  // A matrix is factored whether or not its result is wanted.
  if (sizes.empty() || place.rounds > 500 || place.conditional) return softmax(place);
  const Affine size = random_.pick(sizes);
  const Range all = Range::extent(size);
  const Symbol row = Symbol::fresh();
  const Symbol col = Symbol::fresh();
  const Symbol u = Symbol::fresh();
  const Expr left = call("tanh", {read(place.with(row, size, all, 1).with(u, size, all, 1), row)});
  const Expr gram = reduce(ReduceKind::Sum, u, all, left * at(left, row, col));
  const Expr diagonal =
      call("where", {call("==", {number_of(Affine(row)), number_of(Affine(col))}), random_.real(0.5, 2), 0});
  const Expr matrix = gram + diagonal;
  const std::vector<Symbol> own = place.over(size);
  const auto element = [&] { return own.empty() || random_.chance(20) ? Affine(0) : Affine(random_.pick(own)); };
  const Expr rhs = read(place.with(row, size, all, 1), row);
  using enum LinearAlgebraKind;
  switch (random_.between(0, 3)) {
    case 0:
      return linear_algebra(LogDet, row, col, size, matrix, {}, {});
    case 1:
      return linear_algebra(Solve, row, col, size, matrix, rhs, {element()});
    case 2:
      return linear_algebra(Inverse, row, col, size, matrix, {}, {element(), element()});
    default:
      return linear_algebra(Cholesky, row, col, size, matrix, {}, {element(), element()});
  }
}

/// x[..i/3..], x[..i%3..] or x[..where(i < j, i, 2)..]
Expr RandomExpr::divided_read(const Place& place) {
  const std::string tensor = best_fitting(place, tensors());
  const std::vector<Affine> shape = program_.shape_of(tensor);
  if (place.indices.empty() || shape.empty()) return read(place);
  Placeholders placeholders;
  const Affine index = Affine(random_.pick(place.indices).symbol) + Affine(random_.between(-1, 2));
  const std::int64_t divisor = random_.between(2, 4);
  std::vector<Affine> subscripts;
  for (const Affine& extent : shape) subscripts.push_back(subscript(place, extent));
  Affine& divided =
      subscripts[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(shape.size()) - 1))];
  if (random_.chance(30)) {
    const Expr test = index_test(place, random_.pick(place.indices).symbol);
    divided = placeholders.choice_of(test, {index}, {Affine(random_.between(0, 2))});
  } else {
    divided = random_.chance(40) ? placeholders.remainder_of(index, divisor) : placeholders.floor_of(index, divisor);
  }
  Place inner = place;
  placeholders.add_to(inner.domain);
  return placeholders.bind(guarded_access(inner, tensor, subscripts));
}

Expr RandomExpr::idiom(const Place& place) {
  switch (random_.weighted({20, 22, 10, 10, 8, 14, 8, 10, 10, 4})) {
    case 0:
      return contraction(place);
    case 1:
      return double_sum(place);
    case 2:
      return gaussian(place);
    case 3:
      return split_exponent(place);
    case 4:
      return softmax(place);
    case 5:
      return factored_sum(place);
    case 6:
      return index_polynomial(place);
    case 7:
      return divided_read(place);
    case 8:
      return masked_sum(place);
    default:
      return algebra_chain(place);
  }
}

}  // namespace moxie::test
