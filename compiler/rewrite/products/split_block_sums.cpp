#include <algorithm>
#include <tuple>

#include "compiler/expression/quotients.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

/// y[m] = sum[s](p[m/64,s]*v[s,m]): an axis that holds heads, blocks or patches one after the other is divided where
/// the sum reads them, sum[q in ceil((m-63)/64)..floor(m/64)+1, s](p[q,s]*v[s,m]). No contraction has such a range. But
/// z[q,r] = sum[s](p[q,s]*v[s,64*q+r]) is one for every block, and y[m] = z[m/64,m%64].
struct Block {
  Symbol index, axis;  // q and m
  std::int64_t size;   // 64
  Affine first;        // element of block 0
  Range range, box;    // which q takes for one m, and for any
};

/// Fewer terms than these cost less than storing the sum of each element; lanes along shorter blocks are too few. (A
/// transposed convolution of stride 2 and 64 channels takes 0.9 ms as it is written, and 1.1 by blocks of 2.)
constexpr double kLeastTerms = 8;
constexpr std::int64_t kShortestBlock = 8;
/// Blocks that no element lies in are computed, too, as long as they are few: elements for each one that is read.
constexpr double kMostComputed = 2;

bool is_number_of_dims(const Affine& affine) {
  return std::ranges::all_of(affine.terms(), [](const auto& term) { return term.first.is_dim(); });
}

/// The block that an element of an axis lies in, if that is what the range says.
std::optional<Block> block_in(const Range& range, const Scope& around) {
  for (const Bound& low : range.lows) {
    for (const Bound& high : range.highs) {
      if (low.divisor != high.divisor || high.divisor < kShortestBlock) continue;
      if (high.value - low.value != Affine(high.divisor - 1)) continue;
      for (const auto& [axis, of_axis] : around.open) {
        const Affine first = Affine(axis) - high.value;
        if (high.value.coefficient(axis) != 1 || !is_number_of_dims(first)) continue;
        Block block{Symbol::fresh(), axis, high.divisor, first, range, range};
        std::erase(block.box.lows, low);
        std::erase(block.box.highs, high);
        return block;
      }
    }
  }
  return std::nullopt;
}

/// Ends that only the axis gave: of the blocks that its elements lie in. Nothing where these are not numbers.
std::optional<Range> box_from(Block block, const Range& of_axis) {
  const auto extent = of_axis.as_extent();
  const Affine last = extent ? *extent - Affine(1) - block.first : Affine(0);
  if (!extent || !last.is_constant() || !block.first.is_constant()) return std::nullopt;
  if (block.box.lows.empty()) {
    if (block.first.constant() > 0) return std::nullopt;
    block.box.lows.push_back({1, Affine(-block.first.constant() / block.size)});
  }
  if (block.box.highs.empty()) block.box.highs.push_back({1, Affine(last.constant() / block.size)});
  return block.box.as_extent() ? std::optional(block.box) : std::nullopt;
}

class BlockSumSplitter {
 public:
  BlockSumSplitter(Program& known, const Definition& user) : program_(known), algebra_(known), user_(user) {}

  Expr run() {
    if (user_.scan) return user_.body;
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) { return split(sum, around); });
  }

 private:
  std::optional<Expr> split(const Expr& expr, const Scope& around) {
    std::optional<Block> block;
    std::vector<std::pair<Symbol, Range>> others;
    Expr body = expr;
    while (is_sum(body)) {
      const OpenedReduce opened = open(body);
      const auto found = block ? std::nullopt : block_in(opened.range, around);
      if (found) {
        block = found;
        block->index = opened.index;
      } else {
        others.emplace_back(opened.index, opened.range);
      }
      body = opened.body;
    }
    if (!block) std::tie(block, body) = from_factors(body, around);
    if (!block || !is_worth_it(*block, others, around)) return std::nullopt;
    const Range& of_axis = *around.find(block->axis);
    const auto box = box_from(*block, of_axis);
    const auto size = static_cast<double>(block->size);
    if (!box || assumed_extent(*box) * size > kMostComputed * assumed_extent(of_axis)) return std::nullopt;
    const Symbol inside = Symbol::fresh();
    Scope scope;
    scope.dtype = around.dtype;
    for (const auto& [symbol, range] : around.open) {
      if (mentions(range, block->axis)) return std::nullopt;
      if (symbol != block->axis)
        scope = scope.with(symbol, range);
      else
        scope = scope.with(block->index, *box).with(inside, Range::extent(block->size));
    }
    const Affine start = Affine(block->index) * block->size + block->first;
    Expr sum = substitute(body, {{block->axis, start + Affine(inside)}});
    for (auto other = others.rbegin(); other != others.rend(); ++other)
      sum = reduce(ReduceKind::Sum, other->first, other->second, sum);
    auto part = extract(program_, scope, sum, user_.name + ".blocks", scope.dtype, ExtractedAxes::as_open);
    if (!part) return std::nullopt;
    const Expr read = add_part(program_, std::move(*part), user_);
    return reduce(ReduceKind::Sum, block->index, block->range,
                  substitute(read, {{inside, Affine(block->axis) - start}}));
  }

  /// p[m/64,s]*v[s,m], where the sum over q with its one iteration stands around a factor.
  std::pair<std::optional<Block>, Expr> from_factors(const Expr& body, const Scope& around) const {
    std::optional<Block> block;
    Product product = algebra_.product_of(body);
    for (Factor& factor : product.factors) {
      if (factor.power != 1 || !is_sum(factor.base)) continue;
      const OpenedReduce opened = open(factor.base);
      const auto found = as_quotient(opened.range) ? block_in(opened.range, around) : std::nullopt;
      if (!found || (block && found->range != block->range)) continue;
      if (!block) block = found;
      factor.base = substitute(opened.body, {{opened.index, block->index}});
    }
    return {block, block ? algebra_.make_product(std::move(product)) : body};
  }

  static bool is_worth_it(const Block& block, const std::vector<std::pair<Symbol, Range>>& others, Scope scope) {
    double terms = 1;
    for (const auto& [index, range] : others) {
      if (mentions(range, block.axis) || mentions(range, block.index) || mentions(block.range, index)) return false;
      terms *= longest_extent(range, scope);
      scope = scope.with(index, range);
    }
    return terms >= kLeastTerms;
  }

  Program& program_;
  const Algebra algebra_;
  const Definition& user_;
};

}  // namespace

Program split_block_sums(const Program& program) {
  // A sum over blocks of two axes is split once for each.
  Program result = program;
  for (std::size_t before = 0; before != result.definitions.size();) {
    before = result.definitions.size();
    result = split_bodies(
        result, [](Program& known, const Definition& definition) { return BlockSumSplitter(known, definition).run(); });
  }
  return result;
}

}  // namespace moxie
