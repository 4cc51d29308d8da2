#include <algorithm>
#include <numeric>

#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/axis_order.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/library_product.h"
#include "compiler/rewrite/products/split_products.h"

namespace moxie {
namespace {

/// Multiply-adds that a library does in the 0.1 us that one more call for an element of a batch takes.
constexpr double kCostOfCall = 3000;
/// Multiply-adds below which no order of axes is worth a change.
constexpr double kLeastGain = 1e5;

Definition with_axes_in(const AxisOrder& order, Definition definition) {
  const std::vector<AxisDecl> axes = definition.axes;
  Replacement symbols;
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    definition.axes[k] = axes[order[k]];
    symbols.emplace_back(Symbol::axis(order[k]), Affine(Symbol::axis(k)));
  }
  definition.body = substitute(definition.body, symbols);
  return definition;
}

/// Whether the body is a sum that a library may be worth calling for.
bool is_large_sum(const Definition& definition) {
  double work = 0;
  rewrite_top_down(definition.body, Scope::of(definition), [&](const Expr& e, const Scope& scope) {
    double iterations = 1;
    for (const auto& [symbol, range] : scope.open) iterations *= longest_extent(range, scope);
    work = std::max(work, iterations);
    const bool is_outermost = scope.open.size() == definition.axes.size();
    return is_outermost && e->kind != NodeKind::Reduce && e->kind != NodeKind::Call ? std::optional(e) : std::nullopt;
  });
  return work >= kSmallestProduct;
}

/// Elements of the tensor.
double size_of(const Program& program, const std::string& tensor) {
  double size = 1;
  for (const Affine& extent : program.shape_of(tensor)) size *= assumed_extent(Range::extent(extent));
  return size;
}

/// What a definition costs in an order of the axes of one tensor, in multiply-adds that a good order saves.
struct CostInOrder {
  std::optional<double> calls;  // of the library, if it computes the definition from tensors as they lie
  double loads_across = 0;      // of the kernel that computes it otherwise
};

CostInOrder cost_in_order(const Algebra& algebra, const Program& program, const Definition& definition,
                          const std::vector<std::string>& operands) {
  CostInOrder cost;
  if (const auto product = library_product(algebra, program, definition)) {
    const auto& batch = product->form.batch;
    cost.calls = batch.empty() ? 0 : kCostOfCall * assumed_extent(batch, product->scope);
    return cost;
  }
  for (const std::string& tensor : operands)
    cost.loads_across += kCostOfReadingAcross * loads_across(program, definition, tensor);
  return cost;
}

/// One definition whose cost the order decides, in all orders.
struct CostsInOrders {
  double copied = 0;  // elements of the operand that is copied where no library computes it from tensors as they lie
  std::vector<CostInOrder> costs = {};

  bool may_be_product() const {
    return std::ranges::any_of(costs, [](const CostInOrder& cost) { return cost.calls.has_value(); });
  }
  double total(std::size_t order) const {
    const CostInOrder& cost = costs[order];
    return cost.calls.value_or(cost.loads_across + (may_be_product() ? kCostOfReadingAcross * copied : 0));
  }
};

std::vector<std::string> tensors_in(const Definition& definition) {
  std::vector<std::string> tensors;
  for (const auto& [tensor, count] : read_counts(definition.body)) tensors.push_back(tensor);
  return tensors;
}

/// Finds the order of the axes of one definition in which its sum and what reads it are cheapest.
class AxisOrderSearch {
 public:
  /// `program` is the same again afterwards.
  AxisOrderSearch(Program& program, const Algebra& algebra, Definition& definition)
      : program_(program), algebra_(algebra), definition_(definition), original_(definition) {
    for (const Definition& reader : program.definitions) {
      if (read_counts(reader.body).contains(definition.name)) readers_.push_back(&reader);
    }
  }

  /// The best order, unless it is the one that is there.
  std::optional<AxisOrder> run() {
    const auto is_matrix = [&](const Definition* reader) { return reads_as_matrix(reader->body, original_.name); };
    const bool matters = is_large_sum(original_) ||
                         std::ranges::any_of(readers_, [](const Definition* reader) { return is_large_sum(*reader); });
    if (!matters || std::ranges::any_of(readers_, is_matrix)) return std::nullopt;
    const std::vector<CostsInOrders> all = costs_in_orders();
    if (std::ranges::none_of(all, &CostsInOrders::may_be_product)) {
      const auto order = order_for_readers(all);
      return order ? order : order_of_band();  // else fusion chooses
    }
    const auto total = [&](std::size_t order) {
      double sum = 0;
      for (const CostsInOrders& costs : all) sum += costs.total(order);
      return sum;
    };
    std::size_t best = 0;
    for (std::size_t k = 1; k < orders_.size(); ++k) {
      if (total(k) < total(best)) best = k;
    }
    return total(best) + kLeastGain < total(0) ? std::optional(orders_[best]) : std::nullopt;
  }

 private:
  /// Of the definition itself, and of all its readers. The first order is the one that is there.
  std::vector<CostsInOrders> costs_in_orders() {
    std::vector<CostsInOrders> all(1 + readers_.size(), {size_of(program_, original_.name)});
    const std::vector<std::string> operands = tensors_in(original_);
    all[0].copied = 0;
    for (const std::string& tensor : operands) all[0].copied = std::max(all[0].copied, size_of(program_, tensor));
    AxisOrder order(original_.axes.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      orders_.push_back(order);
      definition_ = with_axes_in(order, original_);
      all[0].costs.push_back(cost_in_order(algebra_, program_, definition_, operands));
      for (std::size_t k = 0; k < readers_.size(); ++k) {
        const Definition reader = with_reads_of(original_.name, original_.name, order, *readers_[k]);
        all[k + 1].costs.push_back(cost_in_order(algebra_, program_, reader, {original_.name}));
      }
    } while (std::ranges::next_permutation(order).found);
    definition_ = original_;
    return all;
  }

  /// A product with operands of its own may lie as what reads it wants it.
  std::optional<AxisOrder> order_for_readers(const std::vector<CostsInOrders>& all) const {
    if (!is_large_sum(original_)) return std::nullopt;
    const auto cost = [&](std::size_t order) {
      double sum = 0;
      for (std::size_t k = 1; k < all.size(); ++k) sum += all[k].total(order);
      return sum;
    };
    std::vector<std::size_t> cheapest(orders_.size());
    std::iota(cheapest.begin(), cheapest.end(), std::size_t{0});
    std::ranges::stable_sort(cheapest, {}, cost);
    for (const std::size_t k : cheapest) {
      if (cost(k) + kLeastGain >= cost(0)) break;
      if (is_library_product(program_, with_axes_in(orders_[k], original_))) return orders_[k];
    }
    return std::nullopt;
  }

  /// A band, sum[g in f+1..F](x[b,g]*sum[k](V[f,k]*V[g,k])), is a product with operands of its own if its rows come
  /// before its columns.
  std::optional<AxisOrder> order_of_band() const {
    if (original_.output || !is_large_sum(original_) || !has_band(original_)) return std::nullopt;
    const auto found = std::ranges::find_if(orders_, [this](const AxisOrder& order) {
      return is_library_product(program_, with_axes_in(order, original_));
    });
    return found == orders_.begin() || found == orders_.end() ? std::nullopt : std::optional(*found);
  }

  /// Whether an axis moves the range of the sum.
  static bool has_band(const Definition& definition) {
    if (!is_sum(definition.body)) return false;
    const Range range = open(definition.body).range;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (mentions(range, Symbol::axis(k))) return true;
    }
    return false;
  }

  Program& program_;
  const Algebra& algebra_;
  Definition& definition_;
  const Definition original_;
  std::vector<const Definition*> readers_;
  std::vector<AxisOrder> orders_;
};

}  // namespace

Program order_axes(const Program& program) {
  Program result = program;
  const Algebra algebra(program);
  for (Definition& definition : result.definitions) {
    if (definition.output || !may_be_permuted(definition) || definition.body->kind != NodeKind::Reduce) continue;
    const auto order = AxisOrderSearch(result, algebra, definition).run();
    if (!order) continue;
    definition = with_axes_in(*order, definition);
    for (Definition& reader : result.definitions)
      reader = with_reads_of(definition.name, definition.name, *order, std::move(reader));
  }
  return result;
}

}  // namespace moxie
