#pragma once
// Scope: the ranges of the symbols that are open around an expression, and the dtype in which it is computed.
#include <optional>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// Extents from here on are worth a loop of their own: tables are hoisted out of such loops, and reductions over them
/// split into chunks. (Below it the code around a loop costs more than what it saves.)
constexpr std::int64_t kLongExtent = 64;
/// Multiply-adds from which a BLAS call beats a loop inside the kernel that needs the product (measured:
/// benchmarks/README.md).
constexpr double kSmallestProduct = 2e6;
/// The same where the kernel is slower: in the steps of a scan (measured before their loops were searched), and where
/// both operands lie along the depth, so that lanes end in sums over lanes. There OpenBLAS does 30 to 45 multiply-adds
/// per nanosecond from here on, kernels 10 to 25 (32 x 256 x 64 and its like in f32, one thread, AVX-512).
constexpr double kSmallestSlowProduct = 2e5;
/// The extent that the cost model assumes for a dynamic dim.
constexpr double kAssumedExtent = 256;

struct Scope {
  std::vector<std::pair<Symbol, Range>> open;  // outermost first
  std::vector<Expr> conditions;                // on indices, that hold here
  DType dtype = DType::f32;                    // of the definition, or of the innermost f32(...) or f64(...) around
  std::optional<Scan> scan;                    // in which the definition steps

  static Scope of(const Definition& definition);
  const Range* find(Symbol symbol) const;
  Scope with(Symbol symbol, const Range& range) const;
  Scope where(const Expr& condition) const;
  Scope in(DType computed) const;
};

/// The largest number of rounds, if it is known: of an extent, or of a range whose bounds are constants once outer
/// indices take any value of theirs.
std::optional<std::int64_t> known_extent(const Range& range);
/// A dynamic extent, or one of at least kLongExtent.
bool is_long(const Range& range);
/// The rounds of the longest that it becomes where indices of the scope move its ends.
double longest_extent(const Range& range, const Scope& scope);
/// Whether that is long.
bool is_long(const Range& range, const Scope& scope);
/// Iterations of the open loops that the expression depends on, or of those that it does not depend on.
double iterations(const Expr& expr, const Scope& scope, bool depends = true);
/// The largest value that indices of the scope give the expression; nothing where a dim or a value moves it, too.
std::optional<std::int64_t> largest_value(const Affine& affine, const Scope& scope);
/// Whether the symbol moves an end of the range.
bool mentions(const Range& range, Symbol symbol);
/// Whether the range goes from 0 to an end that no other index moves.
bool has_fixed_extent(const Range& range);
/// Whether each axis along which the expression reads definitions at the index can be read by value: its range is
/// fixed, and within a scan it is none of steps.
bool has_axes_by_value(const Program& program, const Expr& expr, Symbol index, bool in_scan);
/// Rounds for the cost model.
double assumed_extent(const Range& range);
/// Elements of a tensor with these axes, for the cost model.
double assumed_size(const std::vector<AxisDecl>& axes);
/// That of the largest input or output.
double largest_tensor(const Program& program);

/// Applies `f(expr, scope)` to every subexpression, innermost first, with binders opened; f gives the replacement.
Expr rewrite_bottom_up(const Expr& expr, const Scope& scope, const std::function<Expr(const Expr&, const Scope&)>& f);
/// The same outermost first: where f gives an expression, it is taken and not entered. The scope knows the conditions
/// that guard accesses.
Expr rewrite_top_down(const Expr& expr, const Scope& scope,
                      const std::function<std::optional<Expr>(const Expr&, const Scope&)>& f);

/// Whether the expression has an access that a condition may keep inside its tensor.
bool may_need_guard(const Expr& expr);

bool is_among(const std::vector<Symbol>& symbols, Symbol symbol);
bool depends_on_any(const Expr& expr, const std::vector<Symbol>& symbols);
/// The open symbols that the expression depends on, outermost first.
std::vector<Symbol> open_symbols_of(const Expr& expr, const Scope& scope);
/// `stem`, or `stem.1`, `stem.2`... if the program already has that name.
std::string unused_name(const Program& program, const std::string& stem);

}  // namespace moxie
