#include "compiler/rewrite/products/order_contractions.h"

#include <algorithm>

#include "compiler/expression/contraction_path.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/product_form.h"
#include "compiler/rewrite/products/known_contractions.h"

namespace moxie {
namespace {

/// Whether a table is made of the sum before the loops around it (hoist_tables).
bool is_hoisted(const Expr& expr, const Scope& scope) {
  bool varies_less = false;
  for (const auto& [symbol, range] : scope.open) {
    if (!expr->depends_on(symbol))
      varies_less |= is_long(range);
    else if (is_long(range) && !known_extent(range))
      return false;
  }
  return varies_less;
}

/// Multiply-adds of the sums in an expression as they are written.
double cost_as_written(const Algebra& algebra, const Expr& expr, const Scope& scope) {
  double total = 0;
  for (const Factor& factor : algebra.product_of(expr).factors) {
    if (!is_sum(factor.base)) continue;
    const bool hoisted = is_hoisted(factor.base, scope);
    const OpenedReduce opened = open(factor.base);
    const Scope inner = scope.with(opened.index, opened.range);
    double iterations = assumed_extent(opened.range);
    for (const auto& [symbol, range] : scope.open) {
      if (!hoisted || factor.base->depends_on(symbol)) iterations *= assumed_extent(range);
    }
    total += iterations + cost_as_written(algebra, opened.body, inner);
  }
  return total;
}

class ContractionOrder {
 public:
  ContractionOrder(Program& known, const KnownContractions& contractions, const Definition& user)
      : program_(known),
        algebra_(known),
        contractions_(contractions),
        user_(user),
        room_(room_beside(largest_tensor(known))) {}

  Expr run() {
    return rewrite_top_down(user_.body, Scope::of(user_),
                            [this](const Expr& e, const Scope& scope) -> std::optional<Expr> {
                              const bool is_outermost = scope.open.size() == user_.axes.size();
                              return is_outermost && is_sum(e) ? ordered(e, scope) : std::nullopt;
                            });
  }

 private:
  std::optional<Expr> ordered(const Expr& sum, const Scope& around) {
    const double written = cost_as_written(algebra_, sum, around);
    if (written < kSmallestProduct) return std::nullopt;
    dtype_ = around.dtype;
    FlatSum flat = flat_sum(algebra_, sum, around);
    if (flat.factors.size() == 1 && is_call(flat.factors[0].base, "where")) return ordered_inside(flat);
    around_ = around.open.size();
    if (flat.scope.open.size() > 64 || !is_box(flat.scope) || has_idle_indices(flat) || flat.factors.size() < 2)
      return std::nullopt;
    std::optional<ContractionPath> path = path_of(flat, written);
    const bool knows_parts = flat.factors.size() >= 3 && take_known_parts(flat, path, written);
    operands_ = operands_in(flat);
    Contraction contraction = contraction_of(flat);
    const bool sums_alone = operands_.size() > 1 && lose_own_indices(contraction) > 0;
    const bool has_order = contraction.factors.size() >= 3 || knows_parts || sums_alone;
    if (!path || !has_order || path->cost * kMinPathGain > written) return std::nullopt;
    return follow(*path, contraction, flat);
  }

  /// Orders the sums that a condition on the terms does not depend on, inside of the condition: it says which element
  /// each term of a scatter goes to. `sum[i,k,p,o](where(at[i,k] == n, h[i,k,p]*w[p,c,o]*z[i,o], 0))` orders the sums
  /// over p and o.
  std::optional<Expr> ordered_inside(const FlatSum& flat) {
    const auto& [where, power] = flat.factors[0];
    const Expr& term = where->args[1];
    if (power != 1 || user_.scan || term->gathers || !where->args[2]->is_constant(0) || !is_box(flat.scope))
      return std::nullopt;
    std::vector<Symbol> selected, inner;
    for (const Symbol index : flat.summed) (where->args[0]->depends_on(index) ? selected : inner).push_back(index);
    const Expr sum = summed(inner, term, flat);
    Scope scope;
    scope.dtype = flat.scope.dtype;
    for (const auto& [symbol, range] : flat.scope.open) {
      if (sum->depends_on(symbol)) scope = scope.with(symbol, range);
    }
    const auto cheaper = inner.empty() ? std::nullopt : ordered(sum, scope);
    if (!cheaper) return std::nullopt;
    const Expr choice = call("where", {where->args[0], *cheaper, where->args[2]});
    return algebra_.scaled(summed(selected, choice, flat), flat.coefficient);
  }

  std::optional<ContractionPath> path_of(const FlatSum& flat, double written) {
    operands_ = operands_in(flat);
    Contraction contraction = contraction_of(flat);
    const double alone = operands_.size() > 1 ? lose_own_indices(contraction) : 0;
    auto path = path_in_room(contraction, written);
    if (path) path->cost += alone;
    return path;
  }

  /// Extents that nobody knows are assumed to be equal, and most are not: there is room for one of them more where that
  /// saves most of the work. Bilinear pooling, sum[p,c,d,r,g](w[g,p]*x[b,p,c]*u[g,c,r]*x[b,p,d]*v[g,d,r]*m[g,r,o]),
  /// takes 0.05 ms so for 144 (B=8, P=49, C=64, R=16, O=100, G=3).
  std::optional<ContractionPath> path_in_room(const Contraction& contraction, double written) const {
    constexpr double kWorthMoreRoom = 32;
    auto path = cheapest_path(contraction, room_);
    if (std::ranges::find(contraction.extents, kAssumedExtent) == contraction.extents.end()) return path;
    auto wider = cheapest_path(contraction, kAssumedExtent * room_);
    const double otherwise = path ? std::min(path->cost, written) : written;
    return wider && wider->cost * kWorthMoreRoom <= otherwise ? wider : path;
  }

  /// Puts elements of definitions in the place of what they hold, those first that save most. Whether there are any.
  bool take_known_parts(FlatSum& flat, std::optional<ContractionPath>& path, double written) {
    bool takes = false;
    for (bool gains = true; gains; takes |= gains) {
      gains = false;
      const FlatSum before = flat;
      for (const KnownPart& part : contractions_.parts_of(before)) {
        FlatSum with_part = with(part, before);
        auto found = path_of(with_part, written);
        if (!found || (path && found->cost >= path->cost)) continue;
        path = std::move(found);
        flat = std::move(with_part);
        gains = true;
      }
    }
    return takes;
  }

  static FlatSum with(const KnownPart& part, const FlatSum& flat) {
    FlatSum result = flat;
    result.factors = {{part.read, 1}};
    for (std::size_t k = 0; k < flat.factors.size(); ++k) {
      if ((part.factors >> k & 1) == 0) result.factors.push_back(flat.factors[k]);
    }
    return result;
  }

  /// An operand of the path: an expression over these symbols.
  struct Operand {
    Expr expr;
    std::vector<Symbol> symbols;
  };

  /// The factors; those over the same symbols, or fewer than another has, are one with it.
  std::vector<Operand> operands_in(const FlatSum& flat) const {
    std::vector<Operand> operands;
    for (const Factor& factor : flat.factors) {
      const Expr expr = algebra_.make_product({1, {factor}});
      operands.push_back({expr, symbols_in_order(expr, flat.scope)});
    }
    std::ranges::stable_sort(operands, std::ranges::greater{}, [](const Operand& o) { return o.symbols.size(); });
    std::vector<Operand> merged;
    for (const Operand& operand : operands) {
      const auto wider = std::ranges::find_if(merged, [&](const Operand& other) {
        return std::ranges::all_of(operand.symbols, [&](Symbol s) { return other.expr->depends_on(s); });
      });
      if (wider == merged.end())
        merged.push_back(operand);
      else
        wider->expr = algebra_.times(wider->expr, operand.expr);
    }
    return merged;
  }

  /// Of a plain access in the order of its subscripts, in which it lies in memory.
  static std::vector<Symbol> symbols_in_order(const Expr& expr, const Scope& scope) {
    std::vector<Symbol> symbols = open_symbols_of(expr, scope);
    if (expr->kind != NodeKind::Access) return symbols;
    const auto place = [&](Symbol symbol) {
      return std::ranges::find_if(expr->subscripts, [&](const Affine& s) { return s.mentions(symbol); });
    };
    std::ranges::stable_sort(symbols, {}, place);
    return symbols;
  }

  static IndexSet set_of(const std::vector<Symbol>& symbols, const Scope& scope) {
    IndexSet set = 0;
    for (std::size_t k = 0; k < scope.open.size(); ++k) {
      if (std::ranges::find(symbols, scope.open[k].first) != symbols.end()) set |= IndexSet{1} << k;
    }
    return set;
  }

  Contraction contraction_of(const FlatSum& flat) const {
    Contraction contraction;
    for (const auto& [symbol, range] : flat.scope.open) {
      const bool is_step = user_.scan && symbol == Symbol::axis(0);  // fixed while a step is computed
      contraction.extents.push_back(is_step ? 1 : assumed_extent(range));
    }
    for (const Operand& operand : operands_) contraction.factors.push_back(set_of(operand.symbols, flat.scope));
    for (std::size_t k = 0; k < around_; ++k) contraction.result |= IndexSet{1} << k;
    return contraction;
  }

  std::optional<Expr> follow(const ContractionPath& path, const Contraction& contraction, const FlatSum& flat) {
    const std::size_t known_names = program_.definitions.size();
    if (!take_steps(path, contraction, flat)) {
      program_.definitions.resize(known_names);
      return std::nullopt;
    }
    const Expr whole = path.steps.empty() ? summed(summed_symbols(operands_[0], flat), operands_[0].expr, flat)
                                          : operands_.back().expr;
    return algebra_.scaled(whole, flat.coefficient);
  }

  /// Adds the results of the steps to the operands, which lose their own indices first. Whether all can stand alone.
  bool take_steps(const ContractionPath& path, const Contraction& contraction, const FlatSum& flat) {
    const std::vector<IndexSet> sets = operands_of(contraction, path);
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      auto left = summed_alone(operands_[k], sets[k], flat);
      if (!left) return false;
      operands_[k] = std::move(*left);
    }
    for (const auto& [first, second] : path.steps) {
      const bool is_last = operands_.size() + 1 == sets.size();
      auto product = multiplied(operands_[first], operands_[second], sets[operands_.size()], is_last, flat);
      if (!product) return false;
      operands_.push_back(std::move(*product));
    }
    return true;
  }

  /// The sum of an operand over what is not kept, as a definition.
  std::optional<Operand> summed_alone(const Operand& operand, IndexSet kept, const FlatSum& flat) {
    Operand result{operand.expr, {}};
    std::vector<Symbol> gone;
    for (const Symbol symbol : operand.symbols)
      ((set_of({symbol}, flat.scope) & kept) != 0 ? result.symbols : gone).push_back(symbol);
    if (gone.empty()) return operand;
    result.expr = summed(gone, result.expr, flat);
    return defined(std::move(result), flat);
  }

  /// The sum of the product of two operands over what is not kept; a definition, unless it is the whole or no sum.
  std::optional<Operand> multiplied(const Operand& first, const Operand& second, IndexSet kept, bool is_last,
                                    const FlatSum& flat) {
    const bool first_is_larger = first.symbols.size() >= second.symbols.size();
    const Operand& larger = first_is_larger ? first : second;
    const Operand& smaller = first_is_larger ? second : first;
    const auto is_kept = [&](Symbol symbol) { return (set_of({symbol}, flat.scope) & kept) != 0; };
    Operand result{algebra_.times(first.expr, second.expr), {}};
    std::vector<Symbol> added;
    for (const Symbol symbol : smaller.symbols) {
      if (is_kept(symbol) && std::ranges::find(larger.symbols, symbol) == larger.symbols.end()) added.push_back(symbol);
    }
    // The new symbols take the place of the first that is summed over: so most products are of matrices as they lie.
    std::vector<Symbol> gone;
    for (const Symbol symbol : larger.symbols) {
      if (is_kept(symbol)) {
        result.symbols.push_back(symbol);
        continue;
      }
      if (gone.empty()) std::ranges::copy(added, std::back_inserter(result.symbols));
      gone.push_back(symbol);
    }
    if (gone.empty()) std::ranges::copy(added, std::back_inserter(result.symbols));
    for (const Symbol symbol : smaller.symbols) {
      const bool is_new = !is_kept(symbol) && std::ranges::find(gone, symbol) == gone.end();
      if (is_new) gone.push_back(symbol);
    }
    result.expr = summed(gone, result.expr, flat);
    if (is_last || gone.empty()) return result;
    return defined(std::move(result), flat);
  }

  /// The operand as a definition over its symbols.
  std::optional<Operand> defined(Operand result, const FlatSum& flat) {
    Scope scope;
    const auto open_axis = [&](Symbol symbol) { scope = scope.with(symbol, *flat.scope.find(symbol)); };
    const Symbol step = Symbol::axis(0);
    if (user_.scan) open_axis(step);
    for (const Symbol symbol : result.symbols) {
      if (!user_.scan || symbol != step) open_axis(symbol);
    }
    auto part = extract(program_, scope, result.expr, user_.name + ".contraction", dtype_);
    if (!part) return std::nullopt;
    result.expr = add_part(program_, std::move(*part), user_);
    return result;
  }

  static std::vector<Symbol> summed_symbols(const Operand& operand, const FlatSum& flat) {
    std::vector<Symbol> symbols;
    std::ranges::copy_if(operand.symbols, std::back_inserter(symbols),
                         [&](Symbol symbol) { return is_among(flat.summed, symbol); });
    return symbols;
  }

  Program& program_;
  const Algebra algebra_;
  const KnownContractions& contractions_;
  const Definition& user_;
  const double room_;  // elements of an intermediate result
  DType dtype_ = DType::f32;
  std::size_t around_ = 0;  // indices around the sum
  std::vector<Operand> operands_;
};

}  // namespace

bool has_cheaper_order(Program& known, const Definition& definition) {
  const std::size_t count = known.definitions.size();
  const KnownContractions none;
  const bool has_order = ContractionOrder(known, none, definition).run() != definition.body;
  known.definitions.resize(count);
  return has_order;
}

Program order_contractions(const Program& program) {
  KnownContractions contractions;
  return split_bodies(program, [&](Program& known, Definition definition) {
    const std::size_t parts = known.definitions.size();
    definition.body = ContractionOrder(known, contractions, definition).run();
    const Algebra algebra(known);
    for (std::size_t k = parts; k < known.definitions.size(); ++k) contractions.add(algebra, known.definitions[k]);
    contractions.add(algebra, definition);
    return definition.body;
  });
}

}  // namespace moxie
