#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/window.h"

namespace moxie {
namespace {

/// sum[k](w[k]*exp(x[t+k])) computes the exponential of every element of x once for each window that it is in. What
/// depends on t+k alone becomes a definition over the positions, e[j] = exp(x[j]), and is computed once; so does the
/// choice between neighbours at a boundary, x[(t+k)%N].
///
/// Multiply-adds from which an expression is worth a tensor of its own (a load and a store for each position), and of
/// all that is saved, from which it is worth a launch.
constexpr double kWorthATensor = 4;
constexpr double kWorthALaunch = 1e5;

class WindowSharer {
 public:
  WindowSharer(Program& known, const Definition& user) : program_(known), user_(user) {}

  Expr run() {
    if (user_.scan) return user_.body;  // a tensor of all its steps would be too large
    return rewrite_top_down(user_.body, Scope::of(user_),
                            [this](const Expr& e, const Scope& scope) { return share(e, scope); });
  }

 private:
  std::optional<Expr> share(const Expr& expr, const Scope& scope) {
    const bool is_number = expr->kind == NodeKind::Call && expr->function->result != ResultType::Truth;
    if (!is_number || expr->gathers || scope.open.size() == user_.axes.size() || cost(expr) < kWorthATensor)
      return std::nullopt;
    const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
    std::vector<Symbol> summed;
    for (const Symbol symbol : symbols) {
      if (symbol.kind() != Symbol::Kind::Axis) summed.push_back(symbol);
    }
    Expr body = expr;
    std::vector<Window> windows;
    for (const Symbol axis : symbols) {
      auto window = is_among(summed, axis) ? std::nullopt : window_of(program_, body, axis, summed);
      if (!window) continue;
      // Of x[2*i-j] with i = p-k the position is that of 2*k+j alone: it is added to 2*p.
      for (const Window& earlier : windows)
        window->shifted = window->shifted - Affine(earlier.position) * window->shifted.coefficient(earlier.position);
      body = substitute(body, {{axis, window->axis_by_position()}});
      windows.push_back(*window);
    }
    std::erase_if(summed, [&](Symbol index) { return body->depends_on(index); });  // those are axes of the tensor
    return windows.empty() || summed.empty() ? std::nullopt : define(expr, body, windows, summed, scope);
  }

  std::optional<Expr> define(const Expr& expr, Expr body, std::vector<Window>& windows,
                             const std::vector<Symbol>& summed, const Scope& scope) {
    double windows_of_one = 1;
    for (const Symbol index : summed) windows_of_one *= assumed_extent(*scope.find(index));
    Scope inside;
    inside.dtype = scope.dtype;
    double elements = 1;
    for (const auto& [symbol, range] : scope.open) {
      const auto window = std::ranges::find(windows, symbol, &Window::axis);
      const Range positions = window == windows.end() ? range : positions_of(*window, scope, body);
      if (!body->depends_on(window == windows.end() ? symbol : window->position)) continue;
      if (positions.lows.empty() || !has_fixed_extent(positions)) return std::nullopt;
      inside = inside.with(window == windows.end() ? symbol : window->position, positions);
      elements *= assumed_extent(positions);
    }
    if (elements * (windows_of_one - 1) * cost(expr) < kWorthALaunch) return std::nullopt;
    lay_out_as_read(inside.open, body);
    auto part = extract(program_, inside, body, user_.name + ".window", scope.dtype);
    if (!part) return std::nullopt;
    Replacement shifts;
    for (const Window& window : windows) shifts.emplace_back(window.position, window.shifted);
    return substitute(add_part(program_, std::move(*part), user_), shifts);
  }

  /// In the order in which the tensor with the most axes that the body reads has them.
  static void lay_out_as_read(std::vector<std::pair<Symbol, Range>>& axes, const Expr& body) {
    std::vector<Affine> subscripts;
    visit(body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access && e->subscripts.size() > subscripts.size()) subscripts = e->subscripts;
    });
    const auto place = [&](const std::pair<Symbol, Range>& axis) {
      return std::ranges::find_if(subscripts, [&](const Affine& s) { return s.mentions(axis.first); }) -
             subscripts.begin();
    };
    std::ranges::stable_sort(axes, {}, place);
  }

  /// All that the shifted index can be, from 0 on: the window and the body are moved there. Nothing where the ranges
  /// of its indices depend on others.
  static Range positions_of(Window& window, const Scope& scope, Expr& body) {
    Affine lowest = window.shifted.constant(), count = 1;
    for (const auto& [symbol, coefficient] : window.shifted.terms()) {
      const Range* range = scope.find(symbol);
      if (!range) {
        lowest = lowest + Affine(symbol) * coefficient;  // a dim
        continue;
      }
      const auto extent = range->as_extent();
      if (!extent) return {};
      const Affine last = (*extent - Affine(1)) * coefficient;
      count = count + (coefficient > 0 ? last : last * -1);
      if (coefficient < 0) lowest = lowest + last;
    }
    body = substitute(body, {{window.position, Affine(window.position) + lowest}});
    window.shifted = window.shifted - lowest;
    return Range::extent(count);
  }

  Program& program_;
  const Definition& user_;
};

}  // namespace

Program share_windows(const Program& program) {
  return split_bodies(
      program, [](Program& known, const Definition& definition) { return WindowSharer(known, definition).run(); });
}

}  // namespace moxie
