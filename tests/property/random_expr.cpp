#include "tests/property/random_expr.h"

#include <algorithm>

namespace moxie::test {
namespace {

/// Loops around one expression multiply up to this many rounds at most.
constexpr double kMostRounds = 20000;
/// Keeps values apart that would be equal but for rounding: which of them is the largest decides about gradients.
constexpr double kTieBreaker = 0.01371;

}  // namespace

Place Place::with(Symbol symbol, const Affine& extent, const Range& range, double size) const {
  Place inner = *this;
  inner.indices.push_back({symbol, extent});
  inner.domain.add_range(symbol, range);
  inner.rounds *= std::max(size, 1.0);
  inner.conditional |= size < 1 || range != Range::extent(extent);
  return inner;
}

std::vector<Symbol> Place::over(const Affine& extent) const {
  std::vector<Symbol> symbols;
  for (const OpenIndex& index : indices) {
    if (index.extent == extent) symbols.push_back(index.symbol);
  }
  return symbols;
}

Expr with_plain_numbers(const Expr& expr) {
  return expr->kind == NodeKind::IndexValue ? number_of(expr->affine) : map_children(expr, with_plain_numbers);
}

Place RandomExpr::outermost() const {
  Replacement known;
  for (const DimDecl& dim : program_.dims) {
    if (dim.value) known.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  return {{}, IndexDomain(known)};
}

double RandomExpr::size_of(const Affine& extent) const {
  return static_cast<double>(extent.evaluate([&](Symbol dim) { return dims_.at(dim.name()); }));
}

Affine RandomExpr::extent() {
  if (random_.chance(12)) return random_.between(1, 4);
  return Symbol::dim(random_.pick(program_.dims).name);
}

Range RandomExpr::range(const Place& place, const Affine& extent, bool filled) {
  const std::vector<Symbol> outer = place.over(extent);
  if (outer.empty() || random_.chance(60)) return Range::extent(extent);
  const Affine r = random_.pick(outer);
  switch (random_.between(0, filled ? 2 : 6)) {
    case 0:
      return Range::half_open(r, extent);
    case 1:
      return Range::half_open(0, r + Affine(1));
    case 2:
      return {{{1, 0}, {1, r - Affine(2)}}, {{1, extent - Affine(1)}, {1, r + Affine(1)}}};
    case 3:
      return Range::half_open(r + Affine(1), extent);
    case 4:
      return Range::half_open(0, r - Affine(random_.between(0, 1)));
    case 5:
      return {{{2, r}, {1, 0}}, {{1, extent - Affine(1)}}};
    default:
      return {{{1, 0}}, {{3, r}, {1, extent - Affine(1)}}};
  }
}

std::vector<std::string> RandomExpr::tensors() const {
  std::vector<std::string> names;
  for (const InputDecl& input : program_.inputs) names.push_back(input.name);
  // Later definitions are read more often: chains grow.
  for (const Definition& definition : program_.definitions) names.insert(names.end(), 2, definition.name);
  return names;
}

Affine RandomExpr::subscript(const Place& place, const Affine& extent) {
  const std::vector<Symbol> fitting = place.over(extent);
  if (!fitting.empty() && random_.chance(88)) {
    const Affine index = random_.pick(fitting);
    return random_.chance(8) ? extent - Affine(1) - index : index;
  }
  if (place.indices.empty() || random_.chance(15))
    return random_.chance(70) ? Affine(0) : extent - Affine(random_.between(1, 2));
  Affine result = random_.between(-2, 2);
  for (std::int64_t terms = random_.between(1, 2); terms > 0; --terms) {
    result += Affine(random_.pick(place.indices).symbol) * random_.pick<std::int64_t>({1, 1, 1, -1, 2, 3});
  }
  return result;
}

Expr RandomExpr::guarded_access(const Place& place, const std::string& tensor, const std::vector<Affine>& subscripts) {
  // Where nothing is ever evaluated, everything could be proved.
  if (place.domain.prove_nonnegative(-1) == Proof::Holds) return random_.real(-1, 1);
  const Definition* definition = program_.find_definition(tensor);
  const std::vector<Affine> shape = program_.shape_of(tensor);
  const auto element = [&](Symbol s) { return s.kind() == Symbol::Kind::Axis ? &subscripts[s.number()] : nullptr; };
  std::vector<Expr> tests;
  const auto require = [&](const Affine& high, const Affine& low) {
    if (place.domain.prove_nonnegative(high - low) != Proof::Holds)
      tests.push_back(call(">=", {number_of(high), number_of(low)}));
  };
  for (std::size_t k = 0; k < subscripts.size(); ++k) {
    const Range range = definition ? definition->axes[k].range.substitute(element) : Range::extent(shape[k]);
    for (const Bound& low : range.lows) require(subscripts[k] * low.divisor, low.value);
    for (const Bound& high : range.highs) require(high.value, subscripts[k] * high.divisor);
  }
  const Expr read = tensor_access(tensor, subscripts);
  if (tests.empty()) return read;
  const Expr inside = tests.size() == 1 ? tests[0] : call("and", tests);
  return call("where", {inside, read, random_.chance(75) ? Expr(0) : Expr(0.25)});
}

/// Of a few names the tensor most of whose axes some index runs along, so that not every read needs a guard.
std::string RandomExpr::best_fitting(const Place& place, const std::vector<std::string>& names) {
  std::string best;
  std::size_t fewest = SIZE_MAX;
  for (std::int64_t tries = random_.pick<std::int64_t>({1, 3, 5}); tries > 0; --tries) {
    const std::string name = random_.pick(names);
    const std::vector<Affine> shape = program_.shape_of(name);
    const auto misfits = static_cast<std::size_t>(
        std::ranges::count_if(shape, [&](const Affine& size) { return place.over(size).empty(); }));
    if (misfits < fewest) best = name;
    fewest = std::min(fewest, misfits);
  }
  return best;
}

Expr RandomExpr::read(const Place& place, std::optional<Symbol> wanted) {
  std::vector<std::string> names = tensors();
  std::optional<Affine> extent;
  if (wanted) {
    extent = std::ranges::find(place.indices, *wanted, &Place::OpenIndex::symbol)->extent;
    std::vector<std::string> fitting;
    for (const std::string& name : names) {
      if (std::ranges::count(program_.shape_of(name), *extent) > 0) fitting.push_back(name);
    }
    if (!fitting.empty()) names = fitting;
  }
  if (names.empty()) return random_.real(-1, 1);
  const std::string tensor = best_fitting(place, names);
  const std::vector<Affine> shape = program_.shape_of(tensor);
  std::vector<Affine> subscripts;
  for (const Affine& size : shape) subscripts.push_back(subscript(place, size));
  for (std::size_t k = 0; wanted && k < shape.size(); ++k) {
    if (shape[k] != *extent) continue;
    subscripts[k] = *wanted;
    break;
  }
  return guarded_access(place, tensor, subscripts);
}

Expr RandomExpr::leaf(const Place& place) {
  if (random_.chance(88)) return read(place);
  if (place.indices.empty() || random_.chance(40)) return random_.pick<double>({0, 1, -1, 2, 0.5, -0.75, 0.1});
  Affine index = random_.pick(place.indices).symbol;
  if (random_.chance(40))
    index += Affine(random_.pick(place.indices).symbol) * random_.between(-1, 2) + Affine(random_.between(-1, 1));
  return number_of(index) * Expr(0.0625);
}

Expr RandomExpr::bounded(const Place& place, int depth) {
  return call(random_.pick<std::string>({"sin", "cos", "tanh", "sigmoid", "erf", "normal_cdf", "erfc"}),
              {number(place, depth - 1)});
}

Expr RandomExpr::positive(const Place& place, int depth) {
  const auto power = [](const Expr& x) { return call("pow", {x, 2}); };
  switch (random_.between(0, 4)) {
    case 0:
      return power(number(place, depth - 1)) + Expr(0.5);
    case 1:
      return Expr(2) + bounded(place, depth);
    case 2:
      return call("exp", {bounded(place, depth)});
    case 3:
      return call("softplus", {bounded(place, depth)}) + Expr(0.1);
    default:
      break;
  }
  for (const InputDecl& input : program_.inputs) {
    if (input.domain != ValueDomain::Positive) continue;
    std::vector<Affine> subscripts;
    for (const Affine& extent : input.shape) subscripts.push_back(subscript(place, extent));
    const Expr element = guarded_access(place, input.name, subscripts);
    return element->kind == NodeKind::Access ? element : element + Expr(0.5);
  }
  return call("abs", {number(place, depth - 1)}) + Expr(0.25);
}

/// The sine, whose derivative is declared as it is: all derivatives stay what they are.
Expr RandomExpr::declared_sine(const Place& place, int depth) {
  const Expr x = number(place, depth - 1);
  return call("with_slope", {call("sin", {call("stop_gradient", {x})}), x, call("cos", {x})});
}

Expr RandomExpr::unary(const Place& place, int depth) {
  if (random_.chance(4)) return declared_sine(place, depth);
  if (random_.chance(45)) return bounded(place, depth);
  if (random_.chance(40)) {
    return call(random_.pick<std::string>({"neg", "neg", "abs", "relu", "softplus", "normal_pdf", "f64"}),
                {number(place, depth - 1)});
  }
  if (random_.chance(40))
    return call(random_.pick<std::string>({"exp", "expm1", "exp2", "log_normal_cdf"}), {bounded(place, depth)});
  return call(random_.pick<std::string>({"sqrt", "rsqrt", "log", "log2", "log1p", "lgamma", "digamma"}),
              {positive(place, depth)});
}

Expr RandomExpr::binary(const Place& place, int depth) {
  const Expr a = number(place, depth - 1);
  const Expr b = random_.chance(10) ? a : number(place, depth - 1);
  switch (random_.between(0, 9)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
    case 4:
    case 5:
      return a * b;
    case 6:
      return call("max", {a, b + Expr(kTieBreaker)});
    case 7:
      return call("min", {a, b - Expr(kTieBreaker)});
    case 8:
      return a * (b + Expr(random_.real(-1, 1))) * a;
    default:
      return call("+", {a, b, number(place, depth - 1), a});
  }
}

Expr RandomExpr::quotient(const Place& place, int depth) {
  const Expr below = positive(place, depth);
  switch (random_.between(0, 4)) {
    case 0:
      return call("pow", {below, random_.pick<double>({-1, -2, 0.5, -0.5, 3, 1.5})});
    case 1:
      return call("pow", {number(place, depth - 1), random_.pick<double>({2, 2, 3})});
    case 2:
      return below / (below + number(place, 1) * number(place, 1) * Expr(0.125) + Expr(1));
    default:
      return number(place, depth - 1) / below;
  }
}

Expr RandomExpr::condition(const Place& place, int depth) {
  const std::int64_t kind = place.indices.empty() ? 9 : random_.between(0, 9);
  if (kind <= 5) {
    const Expr left = number_of(Affine(random_.pick(place.indices).symbol) * random_.between(1, 2));
    const Expr right = number_of(Affine(random_.pick(place.indices).symbol) + Affine(random_.between(-1, 1)));
    return call(random_.pick<std::string>({"<", "<=", ">", ">=", "==", "!="}), {left, right});
  }
  if (kind == 6 && depth > 1) return call("not", {condition(place, depth - 1)});
  if (kind <= 8 && depth > 1) {
    return call(random_.pick<std::string>({"and", "or"}), {condition(place, depth - 1), condition(place, depth - 1)});
  }
  return call(random_.pick<std::string>({"<", ">", "<=", ">="}), {read(place), Expr(random_.real(-0.5, 0.5))});
}

Expr RandomExpr::guard(const Place& place, int depth) {
  const Expr test = condition(place, 2);
  const Expr yes = number(place.where(test, true), depth - 1);
  const Expr no = random_.chance(50) ? Expr(0) : number(place.where(test, false), depth - 1);
  return call("where", {test, yes, no});
}

Expr RandomExpr::reduction(const Place& place, int depth) {
  using enum ReduceKind;
  const Affine size = extent();
  if (place.rounds * size_of(size) > kMostRounds) return unary(place, depth);
  // An empty maximum is infinite.
  const ReduceKind kind =
      size_of(size) > 0
          ? random_.pick<ReduceKind>({Sum, Sum, Sum, Sum, Sum, Product, Max, Min, LogSumExp, ArgMax, ArgMin})
          : Sum;
  const Range over = range(place, size, kind != Sum && kind != Product);
  const Symbol index = Symbol::fresh();
  const Place inner = place.with(index, size, over, size_of(size));
  Expr body = random_.chance(70) ? number(inner, depth - 1) * read(inner, index) : number(inner, depth - 1);
  if (kind == Product) body = Expr(1) + call("sin", {body}) * Expr(0.125);
  const bool position = kind == ArgMax || kind == ArgMin;
  if (kind == Max || kind == Min || position) body = body + number_of(index) * Expr(kTieBreaker);
  if (position) {
    const Expr at = random_.chance(50) ? Expr() : number_of(Affine(index) * random_.between(-1, 2) + Affine(1));
    return reduce(kind, index, over, body, at) * Expr(0.125);
  }
  if (kind == Sum && random_.chance(35)) body = call("tanh", {body});
  return reduce(kind, index, over, body);
}

Expr RandomExpr::draw(const Place& place) {
  std::vector<Affine> coordinates;
  for (const Place::OpenIndex& index : place.indices) {
    if (coordinates.size() < 4 && random_.chance(80)) coordinates.emplace_back(index.symbol);
  }
  return random(random_.chance(50) ? RandomKind::Normal : RandomKind::Uniform, random_.between(0, 5), coordinates);
}

Expr RandomExpr::number(const Place& place, int depth) {
  if (depth <= 0) return leaf(place);
  switch (random_.weighted({14, 20, 24, 9, 9, 13, 10, 1})) {
    case 0:
      return leaf(place);
    case 1:
      return unary(place, depth);
    case 2:
      return binary(place, depth);
    case 3:
      return quotient(place, depth);
    case 4:
      return guard(place, depth);
    case 5:
      return reduction(place, depth);
    case 6:
      return idiom(place);
    default:
      return draw(place);
  }
}

}  // namespace moxie::test
