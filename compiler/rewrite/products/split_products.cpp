#include "compiler/rewrite/products/split_products.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/analysis/inside_proof.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/product_form.h"

namespace moxie {
namespace {

/// An operand is worth its place in memory if every element of it is used about this often: more often in a batch,
/// since a library is less of a gain for small matrices.
constexpr double kMinReuse = 16;
constexpr double kMinReuseInBatch = 32;

/// Overlapping windows, x[h+p] over h and p, are copied where every element is used about this often, or where the copy
/// stays in a cache. A kernel that reads the windows where they lie is as fast as a library, and copies nothing: 3x3
/// convolutions of 56x56 with 16 channels take .5 ms and with a copy 1.6, of 28x28 with 64 channels 1.7 and 2.7, with
/// 128 channels 8.2 and 9.0.
constexpr double kMinReuseOfWindows = 256;
constexpr double kSmallCopy = 1 << 17;
/// Where rows of windows fill less than this part of vectors of 16 lanes, a library is faster after all (7x7 with 512
/// channels: 9 ms, in a kernel 21).
constexpr double kLeastFilled = 0.5;

/// A sum over one index or several.
struct SumOfProducts {
  Scope scope;  // around it, and its own indices
  std::vector<Symbol> summed;
  Expr body;
  Scope box = {};                 // the scope with the whole extent of the operands for an index of a band
  std::optional<Band> band = {};  // if the sum has one index, whose range moves with a row
};

SumOfProducts open_sum(Expr sum, Scope scope) {
  SumOfProducts result{std::move(scope), {}, std::move(sum)};
  while (result.body->kind == NodeKind::Reduce && result.body->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = opened_from_zero(result.body);
    result.scope = result.scope.with(opened.index, opened.range);
    result.summed.push_back(opened.index);
    result.body = opened.body;
  }
  result.box = result.scope;
  return result;
}

/// The sum with its band, if that is one.
SumOfProducts with_band(const Program& program, SumOfProducts sum) {
  if (sum.summed.size() != 1) return sum;
  const Symbol index = sum.summed[0];
  const auto extent = extent_along(program, sum.body, index);
  sum.band = extent ? band_of(*sum.scope.find(index)) : std::nullopt;
  if (sum.band) sum.box = with_range(std::move(sum.box), index, Range::extent(*extent));
  return sum;
}

/// The order in which an access of the body has the summed indices, if any has all of them: such tensors can then be
/// read as they lie.
std::vector<Symbol> order_in_memory(const SumOfProducts& sum) {
  std::vector<Symbol> order = sum.summed;
  visit(sum.body, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    std::vector<Symbol> found;
    for (const Affine& subscript : e->subscripts) {
      const auto symbol = subscript.as_symbol();
      if (symbol && std::ranges::find(sum.summed, *symbol) != sum.summed.end()) found.push_back(*symbol);
    }
    if (std::ranges::is_permutation(found, sum.summed)) order = found;
  });
  return order;
}

/// An operand of a matrix product is made where it is at most this many times as large as the largest input or output,
/// or has at most kSmallOperand elements.
constexpr double kRoomForOperand = 16;
constexpr double kSmallOperand = 1 << 24;

/// One factor of a matrix product, over these axes of the result and the summed indices, in a scan one for every step.
struct Side {
  std::vector<Symbol> axes;
  Product factors;
};

/// A tensor that can be an operand: one that is there, or a new one over these symbols.
struct Operand {
  OperandAxes axes;
  std::vector<Symbol> symbols = {};  // of a new one
};

class ProductSplitter {
 public:
  ProductSplitter(Program& known, const Definition& user)
      : program_(known),
        algebra_(known),
        user_(user),
        room_(std::max(kRoomForOperand * largest_tensor(known), kSmallOperand)) {}

  Expr run() {
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) {
      const std::size_t known_names = program_.definitions.size();
      auto result = split(sum, around);
      if (!result) program_.definitions.resize(known_names);
      return result;
    });
  }
  /// Whether run() found a matrix product, or what is one as it stands.
  bool found_product() const { return found_product_; }

 private:
  /// The sum as a combination of matrix products, if it is one.
  std::optional<Expr> split(const Expr& expr, const Scope& around) {
    SumOfProducts opened = open_sum(expr, around);
    const std::optional<Expr> condition = take_condition(opened);
    const SumOfProducts sum = with_band(program_, std::move(opened));
    dtype_ = around.dtype;
    std::vector<Symbol> axes = open_symbols_of(expr, around);
    if (user_.scan) std::erase(axes, Symbol::axis(0));
    const bool is_large = assumed_extent(axes, sum.box) * assumed_extent(sum.summed, sum.box) >= kSmallestSlowProduct;
    if (!is_large || !is_box(sum.box)) return std::nullopt;
    const std::vector<Term> terms = algebra_.terms_of(sum.body);
    const Product whole = algebra_.product_of(user_.body);
    const bool is_body = !condition && is_stored_as_computed(user_.dtype) && terms.size() == 1 &&
                         whole.factors.size() == 1 && whole.factors[0].base == expr && whole.factors[0].power == 1;
    if (!algebra_.may_be_summed_apart(terms)) return std::nullopt;
    std::vector<Term> total;
    bool has_product = false;
    for (const Term& term : terms) {
      auto part = matrix_product(sum, axes, term.product);
      const bool is_product = part.has_value();
      has_product |= is_product;
      if (!part) part = smaller_sum(sum, axes, term.product);
      if (part && !is_body) part = define(around, *part, is_product ? ".product" : ".sum");
      if (!part) return std::nullopt;
      total.push_back({term.coefficient, *part});
    }
    found_product_ |= has_product;
    if (!has_product) return std::nullopt;
    const Expr result = algebra_.make_sum(std::move(total));
    return condition ? call("where", {*condition, result, 0}) : result;
  }

  /// The condition on the step of a scan without which all terms are 0, such as that there is a step before; the sum is
  /// then that of the others.
  std::optional<Expr> take_condition(SumOfProducts& sum) const {
    if (!user_.scan || !is_call(sum.body, "where") || !sum.body->args[2]->is_constant(0)) return std::nullopt;
    const Expr condition = sum.body->args[0];
    const auto is_step = [](Symbol symbol) { return symbol.is_dim() || symbol == Symbol::axis(0); };
    if (depends_on_values(condition) || !std::ranges::all_of(condition->free_symbols, is_step)) return std::nullopt;
    sum.scope = sum.scope.where(condition);
    sum.body = sum.body->args[1];
    return condition;
  }

  /// The sum of a term that is the same along one of the axes: next to products, it is computed once for all of that
  /// axis.
  static std::optional<Expr> smaller_sum(const SumOfProducts& sum, const std::vector<Symbol>& axes, const Expr& term) {
    const auto sees = [&](Symbol axis) { return term->depends_on(axis); };
    if (sum.band || std::ranges::all_of(axes, sees)) return std::nullopt;
    return summed(sum, term);
  }

  static Expr summed(const SumOfProducts& sum, Expr term) {
    for (auto index = sum.summed.rbegin(); index != sum.summed.rend(); ++index)
      term = reduce(ReduceKind::Sum, *index, *sum.scope.find(*index), term);
    return term;
  }

  /// The sum of one product, with both operands as tensors: those that are there if possible.
  std::optional<Expr> matrix_product(const SumOfProducts& sum, const std::vector<Symbol>& axes, const Expr& product) {
    const Product factors = algebra_.product_of(product);
    auto sides = sides_of(sum, axes, factors);
    if (!sides) sides = sides_of_batch(axes, factors);
    if (!sides) return std::nullopt;
    const auto& [left, right] = *sides;
    const std::vector<Symbol> order = order_in_memory(sum);
    for (const Operand& a : operands(sum, order, left, right)) {
      for (const Operand& b : operands(sum, order, right, left)) {
        const auto form = product_form(axes, sum.summed, a.axes, b.axes, sum.box);
        if (!form || !suits_library(*form, sum.box)) continue;
        if (sum.band && !suits_band(*form, *sum.band, sum.box)) continue;
        const std::size_t known_names = program_.definitions.size();
        const auto first = tensor_of(sum, left, a);
        const auto second = first ? tensor_of(sum, right, b) : std::nullopt;
        if (second) return summed(sum, algebra_.times(*first, *second));
        program_.definitions.resize(known_names);
      }
    }
    return std::nullopt;
  }

  /// The factors shared out to the first and the last of the axes.
  static std::optional<std::pair<Side, Side>> sides_of(const SumOfProducts& sum, const std::vector<Symbol>& axes,
                                                       const Product& product) {
    for (auto middle = axes.begin() + (axes.empty() ? 0 : 1); middle != axes.end(); ++middle) {
      Side left{{axes.begin(), middle}, {product.coefficient, {}}};
      Side right{{middle, axes.end()}, {1, {}}};
      // What sees neither goes to the smaller side; in a band to the one that is made for its rows.
      const bool right_takes = sum.band ? is_among(right.axes, sum.band->row)
                                        : assumed_extent(right.axes, sum.box) < assumed_extent(left.axes, sum.box);
      bool fits = true;
      for (const Factor& factor : product.factors) {
        const bool in_left = depends_on_any(factor.base, left.axes);
        const bool in_right = depends_on_any(factor.base, right.axes);
        fits &= !(in_left && in_right);
        const bool goes_right = in_right || (!in_left && right_takes);
        (goes_right ? right : left).factors.factors.push_back(factor);
      }
      if (fits) return std::pair(std::move(left), std::move(right));
    }
    return std::nullopt;
  }

  /// The factors that see the last axis, and the others. Axes of both are a batch.
  static std::optional<std::pair<Side, Side>> sides_of_batch(const std::vector<Symbol>& axes, const Product& product) {
    if (axes.empty()) return std::nullopt;
    Side left{{}, {product.coefficient, {}}};
    Side right{{}, {1, {}}};
    for (const Factor& factor : product.factors)
      (factor.base->depends_on(axes.back()) ? right : left).factors.factors.push_back(factor);
    for (const Symbol axis : axes) {
      for (Side* side : {&left, &right}) {
        const auto sees_axis = [&](const Factor& factor) { return factor.base->depends_on(axis); };
        if (std::ranges::any_of(side->factors.factors, sees_axis)) side->axes.push_back(axis);
      }
    }
    return std::pair(std::move(left), std::move(right));
  }

  /// What may be the operand for this side: a tensor that is there, or a new one if that is worth it.
  std::vector<Operand> operands(const SumOfProducts& sum, const std::vector<Symbol>& order, const Side& side,
                                const Side& other) const {
    std::vector<Operand> result;
    const Expr expr = algebra_.make_product(side.factors);
    if (!std::ranges::all_of(order, [&](Symbol symbol) { return expr->depends_on(symbol); })) return result;
    const bool is_tensor = expr->kind == NodeKind::Access && program_.dtype_of(expr->tensor) == dtype_;
    if (const auto axes = operand_axes(program_, expr, sum.box, user_.scan.has_value()); axes && is_tensor)
      result.push_back({*axes});
    // No elements of a band exist but for its rows.
    if (sum.band && !is_among(side.axes, sum.band->row)) return result;
    std::vector<Symbol> batch, own, reused;
    for (const Symbol axis : side.axes) (is_among(other.axes, axis) ? batch : own).push_back(axis);
    for (const Symbol axis : other.axes) {
      if (!is_among(side.axes, axis)) reused.push_back(axis);
    }
    const double reuse = assumed_extent(reused, sum.box);
    const bool by_own = lies_by(expr, own, order) && (!sum.band || rows_of_triangle(*sum.band, sum.summed[0]));
    std::vector<Symbol> symbols = batch;
    std::ranges::copy(by_own ? order : own, std::back_inserter(symbols));
    std::ranges::copy(by_own ? own : order, std::back_inserter(symbols));
    const double size = assumed_extent(symbols, sum.box);
    const bool pays = reuse >= (batch.empty() ? kMinReuse : kMinReuseInBatch) &&
                      (reuse >= kMinReuseOfWindows || size <= kSmallCopy || !has_windows(expr, sum));
    if (pays && has_floating_point(expr) && size <= room_) result.push_back({operand_axes(symbols), symbols});
    return result;
  }

  /// Whether the expression is an element of a tensor whose windows overlap, and rows of them fill vectors.
  static bool has_windows(const Expr& expr, const SumOfProducts& sum) {
    if (expr->kind != NodeKind::Access) return false;
    const auto moves_by_one = [](const Affine::Term& term) { return term.second == 1 || term.second == -1; };
    const bool overlaps = std::ranges::any_of(expr->subscripts, [&](const Affine& subscript) {
      return subscript.terms().size() == 2 && std::ranges::all_of(subscript.terms(), moves_by_one) &&
             std::ranges::any_of(sum.summed, [&](Symbol symbol) { return subscript.mentions(symbol); });
    });
    double row = 1;
    for (const auto& [symbol, coefficient] : expr->subscripts.back().terms()) {
      const Range* range = sum.scope.find(symbol);
      if (range) row = std::max(row, assumed_extent(*range));
    }
    return overlaps && row >= kLeastFilled * 16 * std::ceil(row / 16);
  }

  std::optional<Expr> tensor_of(const SumOfProducts& sum, const Side& side, const Operand& operand) {
    const Expr expr = algebra_.make_product(side.factors);
    if (operand.symbols.empty()) return is_there(sum, expr) ? std::optional(expr) : std::nullopt;
    Scope scope;
    const auto open_axis = [&](Symbol symbol) { scope = scope.with(symbol, range_in_operand(sum, operand, symbol)); };
    if (user_.scan) open_axis(Symbol::axis(0));
    std::ranges::for_each(operand.symbols, open_axis);
    // The form of the product rests on this order.
    if (auto read = define(scope, expr, ".operand", ExtractedAxes::as_open)) return read;
    const auto guarded = where_it_is_read(sum, scope, expr);
    return guarded ? define(scope, *guarded, ".operand", ExtractedAxes::as_open) : std::nullopt;
  }

  /// Whether all elements of it are there, also where conditions around the sum do not hold.
  bool is_there(const SumOfProducts& sum, const Expr& expr) const {
    if (sum.scope.conditions.empty()) return true;
    Scope scope;
    if (user_.scan) scope = scope.with(Symbol::axis(0), *sum.scope.find(Symbol::axis(0)));
    for (const Symbol symbol : open_symbols_of(expr, sum.box)) {
      if (!scope.find(symbol)) scope = scope.with(symbol, *sum.box.find(symbol));
    }
    scope.scan = sum.scope.scan;
    return extract(program_, scope, expr, user_.name, dtype_).has_value();
  }

  /// The expression, and 0 where conditions around the sum do not hold, so that nobody reads the product: such as the
  /// state before the first step of a scan. Nothing where no condition is one on the open indices alone.
  static std::optional<Expr> where_it_is_read(const SumOfProducts& sum, const Scope& scope, const Expr& expr) {
    Expr guarded = expr;
    for (const Expr& condition : sum.scope.conditions) {
      const auto is_open = [&](Symbol symbol) { return symbol.is_dim() || scope.find(symbol); };
      if (std::ranges::all_of(condition->free_symbols, is_open)) guarded = call("where", {condition, guarded, 0});
    }
    return guarded == expr ? std::nullopt : std::optional(guarded);
  }

  /// The elements of the operand along this symbol. Of those of a band the inner loop has the part that the outer one
  /// leaves.
  static Range range_in_operand(const SumOfProducts& sum, const Operand& operand, Symbol symbol) {
    if (sum.band && operand.symbols.back() != sum.summed[0]) {
      if (symbol == sum.summed[0]) return *sum.box.find(symbol);
      if (symbol == sum.band->row) return *rows_of_triangle(*sum.band, sum.summed[0]);
    }
    return *sum.scope.find(symbol);
  }

  /// Whether what the operand is made of lies with one of these axes fastest, and not with one of the others. Tensors
  /// in which an axis of the batch is the fastest say nothing: the operand has none of these last.
  static bool lies_by(const Expr& expr, const std::vector<Symbol>& axes, const std::vector<Symbol>& others) {
    int votes = 0;
    visit(expr, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || e->subscripts.empty()) return;
      const auto is_fastest = [&](Symbol symbol) { return e->subscripts.back().mentions(symbol); };
      votes += std::ranges::any_of(axes, is_fastest) ? 1 : std::ranges::any_of(others, is_fastest) ? -1 : 0;
    });
    return votes > 0;
  }

  /// Whether it is made of floating-point numbers, which the operand holds in the dtype of the sum: a library
  /// multiplies tensors of fewer bits (or more) as well, once they are converted.
  bool has_floating_point(const Expr& expr) const {
    bool has = true;
    visit(expr, [&](const Expr& e) {
      has &= e->kind != NodeKind::Access || !holds_integers(program_.dtype_of(e->tensor));
      has &= !is_call(e, "f32") && !is_call(e, "f64");
    });
    return has;
  }

  std::optional<Expr> define(const Scope& scope, const Expr& expr, const char* suffix,
                             ExtractedAxes axes = ExtractedAxes::neighbours_last) {
    auto part = extract(program_, scope, expr, user_.name + suffix, dtype_, axes);
    if (!part) return std::nullopt;
    return add_part(program_, std::move(*part), user_);
  }

  Program& program_;
  const Algebra algebra_;
  const Definition& user_;
  const double room_;         // elements of an operand
  DType dtype_ = DType::f32;  // in which the sum is computed
  bool found_product_ = false;
};

/// The definition with all elements of the box around a triangle. Nobody reads those outside, so that they may be
/// anything.
std::optional<Definition> whole_box(const Program& program, Definition definition) {
  if (definition.output || definition.scan) return std::nullopt;
  IndexDomain domain({});
  int triangles = 0;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    AxisDecl& axis = definition.axes[k];
    const Range box = Range::extent(axis.extent);
    const Range& range = axis.range;
    // Half of a box: one end is that of the box, the other another index.
    if (range != box) {
      if (range.lows.size() != 1 || range.highs.size() != 1) return std::nullopt;
      if (range.lows != box.lows && range.highs != box.highs) return std::nullopt;
      ++triangles;
      axis.range = box;
    }
    domain.add_range(Symbol::axis(k), axis.range);
  }
  if (triangles != 1) return std::nullopt;
  const bool exists = InsideProof(program, Inside::Element).holds_within(definition.body, domain);
  return exists ? std::optional(std::move(definition)) : std::nullopt;
}

/// A triangle of elements, each a sum of products, as a matrix product of the whole box if a library multiplies that:
/// it is more than twice as fast, and others may read the same product.
Program with_whole_products(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) {
    const auto whole = whole_box(program, definition);
    if (whole && is_library_product(program, *whole)) definition = *whole;
  }
  return result;
}

}  // namespace

bool is_library_product(const Program& program, const Definition& definition) {
  Program known = program;
  ProductSplitter splitter(known, definition);
  splitter.run();
  return splitter.found_product();
}

Program split_products(const Program& program) {
  return split_bodies(with_whole_products(program), [](Program& known, const Definition& definition) {
    return ProductSplitter(known, definition).run();
  });
}

}  // namespace moxie
