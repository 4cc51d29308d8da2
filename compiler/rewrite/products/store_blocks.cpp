#include <algorithm>

#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

/// z[h,t,s] = sum[d](q[t,64*h+d]*k[s,64*h+d]): heads lie one after the other along an axis of q. A library and the
/// passes that make its products want an axis for each index: q.blocks[t,h,d] = q[t,64*h+d]. A copy is worth it where
/// each of its elements is read about as often as those of an operand that is made for a batch of products.
constexpr double kMinReads = 32;
/// Shorter rows are copied as operands of one product, if at all: patches, of which two axes are read so.
constexpr std::int64_t kShortestStored = 16;

class BlockStorer {
 public:
  BlockStorer(Program& known, const Definition& user) : program_(known), user_(user) {}

  Expr run() {
    if (user_.scan) return user_.body;
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) { return stored(sum, around); });
  }

 private:
  Expr stored(const Expr& sum, const Scope& around) {
    const FlatSum flat = flat_sum(Algebra::of_reals(), sum, around);
    double terms = 1;
    for (const auto& [symbol, range] : flat.scope.open) terms *= longest_extent(range, flat.scope);
    if (flat.factors.size() < 2 || terms < kSmallestProduct) return sum;
    return rewrite_bottom_up(sum, around, [&](const Expr& e, const Scope& scope) {
      if (e->kind != NodeKind::Access || e->gathers || scope.open.size() == around.open.size()) return e;
      return is_read_in_blocks(e, scope) ? copy(e, scope, terms) : e;
    });
  }

  /// Whether one subscript, and no other, is 64*h + d with d in 0..64.
  bool is_read_in_blocks(const Expr& access, const Scope& scope) const {
    const auto is_in_blocks = [&](const Affine& subscript) {
      return std::ranges::any_of(subscript.terms(), [&](const Affine::Term& inside) {
        const Range* range = scope.find(inside.first);
        const auto extent = range && inside.second == 1 ? range->as_extent() : std::nullopt;
        if (!extent || !extent->is_constant() || extent->constant() < kShortestStored) return false;
        const Affine blocks = subscript - Affine(inside.first);
        const std::int64_t size = extent->constant();
        const auto is_multiple = [size](const Affine::Term& term) { return term.second % size == 0; };
        return !blocks.is_constant() && blocks.constant() % size == 0 &&
               std::ranges::all_of(blocks.terms(), is_multiple);
      });
    };
    const auto is_plain = [](const Affine& subscript) { return subscript.terms().size() <= 1; };
    return std::ranges::count_if(access->subscripts, is_in_blocks) == 1 &&
           std::ranges::count_if(access->subscripts, is_plain) + 1 == std::ssize(access->subscripts);
  }

  /// The elements in the order in which they lie, with an axis for each index.
  Expr copy(const Expr& access, const Scope& around, double terms) {
    Scope scope;
    scope.dtype = program_.dtype_of(access->tensor);
    double elements = 1;
    for (const Affine& subscript : access->subscripts) {
      std::vector<Affine::Term> steps = subscript.terms();
      std::ranges::sort(steps, std::greater<>(), [](const Affine::Term& term) { return std::abs(term.second); });
      for (const auto& [symbol, step] : steps) {
        if (symbol.is_dim() || scope.find(symbol)) continue;
        const Range* range = around.find(symbol);
        if (!range) return access;
        const Range box = Range::extent(room_for(*range, around));
        elements *= assumed_extent(box);
        scope = scope.with(symbol, box);
      }
    }
    if (terms < kMinReads * elements) return access;
    auto part = extract(program_, scope, access, access->tensor + ".blocks", scope.dtype, ExtractedAxes::as_open);
    return part ? add_part(program_, std::move(*part), user_) : access;
  }

  Program& program_;
  const Definition& user_;
};

}  // namespace

Program store_blocks(const Program& program) {
  return split_bodies(
      program, [](Program& known, const Definition& definition) { return BlockStorer(known, definition).run(); });
}

}  // namespace moxie
