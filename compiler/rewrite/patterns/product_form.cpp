#include "compiler/rewrite/patterns/product_form.h"

#include <algorithm>

namespace moxie {
namespace {

/// A library call for each element of a batch costs some hundred nanoseconds, so that the matrices must not be too
/// small: OpenBLAS (0.3.21, AVX2) takes 0.18 us for 16 x 16 x 16, 23 multiply-adds per nanosecond, as fast as the best
/// kernels, and 1.4 us for 26 x 72 x 26, 35 per nanosecond; with 4 rows or columns it reaches 12, with one 3.
constexpr double kMinMatrixSide = 8;
constexpr double kMinMatrixWork = 16 * 16 * 16;

bool contains(const std::vector<Symbol>& symbols, Symbol symbol) {
  return std::ranges::find(symbols, symbol) != symbols.end();
}

/// The end of a range from 0 on that no index moves.
std::optional<Affine> extent_of_box(const Range& range) {
  const auto extent = range.as_extent();
  const auto is_dim = [](const Affine::Term& term) { return term.first.is_dim(); };
  return extent && std::ranges::all_of(extent->terms(), is_dim) ? extent : std::nullopt;
}

std::optional<std::size_t> position_of(const OperandAxes& axes, Symbol symbol) {
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (axes[k].symbol == symbol) return k;
  }
  return std::nullopt;
}

/// Whether `next` lies directly behind `first` and fills its axis, so that both are one index.
bool are_one(const OperandAxes& axes, Symbol first, Symbol next) {
  const auto a = position_of(axes, first);
  const auto b = position_of(axes, next);
  return a && b && *b == *a + 1 && axes[*b].whole;
}

bool is_run(const OperandAxes& axes, const std::vector<Symbol>& symbols) {
  for (std::size_t k = 1; k < symbols.size(); ++k) {
    if (!are_one(axes, symbols[k - 1], symbols[k])) return false;
  }
  return true;
}

/// The axes of the result that end with the one at `last` and are one index of the result and of the operand.
std::vector<Symbol> run_up_to(const std::vector<Symbol>& axes, std::size_t last, const OperandAxes& operand,
                              const std::vector<Symbol>& own) {
  std::vector<Symbol> run = {axes[last]};
  for (std::size_t k = last; k > 0; --k) {
    const Symbol outer = axes[k - 1];
    if (!contains(own, outer) || !are_one(operand, outer, run.front())) break;
    run.insert(run.begin(), outer);
  }
  return run;
}

/// The rows: they end with the operand's last axis if that is one of its own, and are as many as possible otherwise.
std::vector<Symbol> choose_rows(const std::vector<Symbol>& axes, const OperandAxes& operand,
                                const std::vector<Symbol>& own, const Scope& scope) {
  std::vector<Symbol> best;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (!contains(own, axes[k])) continue;
    std::vector<Symbol> run = run_up_to(axes, k, operand, own);
    if (operand.back().symbol == axes[k]) return run;
    if (best.empty() || assumed_extent(run, scope) >= assumed_extent(best, scope)) best = std::move(run);
  }
  return best;
}

bool ends_with(const OperandAxes& operand, const std::vector<Symbol>& run) {
  return !run.empty() && operand.back().symbol == run.back();
}

/// Whether the operand has indices of the contraction only, each once.
bool is_plain(const OperandAxes& operand, const std::vector<Symbol>& axes, const std::vector<Symbol>& summed) {
  for (std::size_t k = 0; k < operand.size(); ++k) {
    const auto symbol = operand[k].symbol;
    if (!symbol) continue;
    if (position_of(operand, *symbol) != k || (!contains(axes, *symbol) && !contains(summed, *symbol))) return false;
  }
  return !operand.empty();
}

}  // namespace

std::optional<OperandAxes> operand_axes(const Program& program, const Expr& access, const Scope& scope, bool scan) {
  if (access->kind != NodeKind::Access) return std::nullopt;
  const std::vector<Affine> shape = program.shape_of(access->tensor);
  OperandAxes axes;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const Affine& subscript = access->subscripts[k];
    const auto is_fixed = [&](const Affine::Term& term) {
      return term.first.is_dim() || (scan && term.first == Symbol::axis(0));
    };
    const auto symbol = subscript.as_symbol();
    if (k == 0 && std::ranges::all_of(subscript.terms(), is_fixed)) {
      axes.push_back({});
      continue;
    }
    const Range* range = symbol ? scope.find(*symbol) : nullptr;
    const auto extent = range ? extent_of_box(*range) : std::nullopt;
    if (!extent) return std::nullopt;
    axes.push_back({symbol, *extent == shape[k]});
  }
  return axes;
}

OperandAxes operand_axes(const std::vector<Symbol>& symbols) {
  OperandAxes axes;
  for (const Symbol symbol : symbols) axes.push_back({symbol, true});
  return axes;
}

std::optional<ProductForm> product_form(const std::vector<Symbol>& axes, const std::vector<Symbol>& summed,
                                        const OperandAxes& first, const OperandAxes& second, const Scope& scope) {
  if (axes.empty() || !is_plain(first, axes, summed) || !is_plain(second, axes, summed)) return std::nullopt;
  ProductForm form;
  form.swapped = position_of(first, axes.back()).has_value();
  const OperandAxes& left = form.swapped ? second : first;
  const OperandAxes& right = form.swapped ? first : second;
  std::vector<Symbol> left_own, right_own;
  for (const Symbol axis : axes) {
    const bool in_left = position_of(left, axis).has_value();
    const bool in_right = position_of(right, axis).has_value();
    if (!in_left && !in_right) return std::nullopt;
    if (!in_right) left_own.push_back(axis);
    if (!in_left) right_own.push_back(axis);
  }
  if (left_own.empty() || !contains(right_own, axes.back())) return std::nullopt;
  for (const OperandAxis& axis : left) {
    if (axis.symbol && contains(summed, *axis.symbol)) form.depth.push_back(*axis.symbol);
  }
  form.columns = run_up_to(axes, axes.size() - 1, right, right_own);
  form.rows = choose_rows(axes, left, left_own, scope);
  for (const Symbol axis : axes) {
    if (!contains(form.rows, axis) && !contains(form.columns, axis)) form.batch.push_back(axis);
  }
  const bool is_product = form.depth.size() == summed.size() && is_run(left, form.depth) && is_run(right, form.depth) &&
                          std::ranges::all_of(form.depth, [&](Symbol s) { return position_of(right, s).has_value(); });
  const bool has_unit_strides = (ends_with(left, form.rows) || ends_with(left, form.depth)) &&
                                (ends_with(right, form.columns) || ends_with(right, form.depth));
  form.along_depth = ends_with(left, form.depth) && ends_with(right, form.depth);
  return is_product && has_unit_strides ? std::optional(std::move(form)) : std::nullopt;
}

bool is_box(const Scope& scope) {
  return std::ranges::all_of(scope.open, [](const auto& entry) { return extent_of_box(entry.second).has_value(); });
}

double assumed_extent(const std::vector<Symbol>& symbols, const Scope& scope) {
  double extent = 1;
  for (const Symbol symbol : symbols) extent *= assumed_extent(*scope.find(symbol));
  return extent;
}

bool suits_library(const ProductForm& form, const Scope& scope) {
  const double rows = assumed_extent(form.rows, scope);
  const double columns = assumed_extent(form.columns, scope);
  const double work = rows * columns * assumed_extent(form.depth, scope);
  const double products = assumed_extent(form.batch, scope);
  const bool is_slow = form.along_depth || scope.scan;
  if (work * products < (is_slow ? kSmallestSlowProduct : kSmallestProduct)) return false;
  return products == 1 || (rows >= kMinMatrixSide && columns >= kMinMatrixSide && work >= kMinMatrixWork);
}

bool suits_band(const ProductForm& form, const Band& band, const Scope& scope) {
  return form.rows == std::vector{band.row} && assumed_extent(form.rows, scope) >= kMinBand &&
         width_of(band).value_or(kMinBand) >= kMinBand;
}

}  // namespace moxie
