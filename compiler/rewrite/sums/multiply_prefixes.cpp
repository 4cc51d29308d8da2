#include <algorithm>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/axis_order.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"

namespace moxie {
namespace {

/// Multiply-adds of a library's product that take as long as an element of a prefix sum, which is written and read
/// again, in a cache and in memory. (Causal linear attention on one thread, milliseconds: 256 words of 32 features .67
/// for 2.1 million elements and .35 for 34 million multiply-adds; the gradient of 1024 words of 64 features 60 for
/// 34 million elements, and 24 for 1.1 billion multiply-adds.)
constexpr double kElementInCache = 32, kElementInMemory = 80;
/// Elements of four bytes that fill half of a cache of 32 MiB.
constexpr double kLargestInCache = 1 << 22;

/// sum[d](a[t,d]*sum[s in 0..t+1](b[s,d]*c[s,e])) as sum[s in 0..t+1](c[s,e]*sum[d](a[t,d]*b[s,d])): a product for all
/// pairs of positions in the place of a prefix sum for all pairs of features.
struct PrefixProduct {
  Expr sum;
  double multiply_adds = 0;
  double elements = 0;  // that the prefix sum would have
};

class PrefixProducts {
 public:
  explicit PrefixProducts(const Program& program) : program_(program), algebra_(program) {}

  Program run() {
    std::vector<std::string> prefixes;
    for (const Definition& definition : program_.definitions) {
      if (!definition.scan && !definition.output && match_prefix(definition)) prefixes.push_back(definition.name);
    }
    for (const std::string& name : prefixes) split_readers(name);
    for (Definition& definition : program_.definitions) {
      if (definition.scan) continue;
      definition.body =
          rewrite_bottom_up(definition.body, Scope::of(definition), [&](const Expr& e, const Scope& scope) {
            const auto product = product_for(e, scope);
            return product && pays(product->multiply_adds, product->elements) ? product->sum : e;
          });
    }
    return std::move(program_);
  }

 private:
  static bool pays(double multiply_adds, double elements) {
    return multiply_adds <= elements * (elements <= kLargestInCache ? kElementInCache : kElementInMemory);
  }

  /// Removes the definition if all of its readers can use products instead, and these take less time.
  void split_readers(const std::string& name) {
    const Definition prefix = *program_.find_definition(name);
    std::vector<Definition> definitions = program_.definitions;
    double multiply_adds = 0;
    for (Definition& reader : definitions) {
      if (!read_counts(reader.body).contains(name)) continue;
      if (reader.scan) return;
      reader.body = rewrite_bottom_up(reader.body, Scope::of(reader), [&](const Expr& e, const Scope& scope) {
        // Written out, it is computed in the dtype of its reader.
        const bool keeps_dtype = scope.dtype == prefix.dtype;
        const auto product = is_sum(e) && keeps_dtype ? product_for(written_out(e, prefix), scope) : std::nullopt;
        multiply_adds += product ? product->multiply_adds : 0;
        return product ? product->sum : e;
      });
      if (read_counts(reader.body).contains(name)) return;
    }
    if (!pays(multiply_adds, assumed_size(prefix.axes))) return;
    std::erase_if(definitions, [&](const Definition& definition) { return definition.name == name; });
    program_.definitions = std::move(definitions);
  }

  /// A sum with the body of the prefix sum where it reads one.
  Expr written_out(const Expr& sum, const Definition& prefix) const {
    const OpenedReduce opened = open(sum);
    Product product = algebra_.product_of(opened.body);
    for (Factor& factor : product.factors) {
      const Expr& read = factor.base;
      if (read->kind == NodeKind::Access && read->tensor == prefix.name && !reads_by_value(read))
        factor.base = substitute(prefix.body, axes_by_subscripts(read));
    }
    return reduce(ReduceKind::Sum, opened.index, opened.range, algebra_.make_product(std::move(product)));
  }

  std::optional<PrefixProduct> product_for(const Expr& expr, const Scope& scope) const {
    if (!is_sum(expr) || !has_fixed_extent(expr->range)) return std::nullopt;
    const OpenedReduce outer = open(expr);
    const Scope inside = scope.with(outer.index, outer.range);
    Product pairs = algebra_.product_of(outer.body);
    const auto prefix = std::ranges::find_if(pairs.factors, [&](const Factor& factor) {
      return factor.power == 1 && is_sum(factor.base) && factor.base->depends_on(outer.index) &&
             !mentions(factor.base->range, outer.index);
    });
    if (prefix == pairs.factors.end()) return std::nullopt;
    const auto table = extract(program_, inside, prefix->base, "prefix", scope.dtype);
    if (!table || !match_prefix(table->definition)) return std::nullopt;
    const OpenedReduce opened = open(prefix->base);
    pairs.factors.erase(prefix);
    const Product summand = algebra_.product_of(opened.body);
    Product rest{summand.coefficient, {}};
    for (const Factor& factor : summand.factors)
      (factor.base->depends_on(outer.index) ? pairs : rest).factors.push_back(factor);
    if (rest.factors.empty() || !is_product_of_tensors(pairs, outer.index)) return std::nullopt;
    const Expr shared = algebra_.make_reduction_sum(outer.index, outer.range, algebra_.make_product(std::move(pairs)));
    const Scope positions = scope.with(opened.index, opened.range);
    const Expr summed = algebra_.times(algebra_.make_product(std::move(rest)), shared);
    PrefixProduct result{reduce(ReduceKind::Sum, opened.index, opened.range, summed)};
    const double products = iterations(shared, positions) * assumed_extent(outer.range);
    result.multiply_adds = products + iterations(expr, scope) * longest_extent(opened.range, scope);
    result.elements = assumed_size(table->definition.axes);
    return products >= kSmallestProduct ? std::optional(std::move(result)) : std::nullopt;
  }

  Program program_;
  const Algebra algebra_;
};

}  // namespace

Program multiply_prefixes(const Program& program) { return PrefixProducts(program).run(); }

}  // namespace moxie
