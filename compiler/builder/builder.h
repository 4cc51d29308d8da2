#pragma once
// The C++ form of the language: what .mox text says, said with objects.
//
//   Program p("row_sums");
//   Dim S = p.dim("S", dynamic), N = p.dim("N");
//   Index s(S), n(N);
//   Tensor x = p.input("x", {S, N});
//   p.output("total", {s}, sum(n, sq(x(s, n))));
//
// Arithmetic is that of Expr. Subscripts, shapes and ranges are expressions that must turn out affine. `==` asks
// whether two expressions are the same node, so a condition on values is spelled equal(a, b).
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// A named extent, as Program::dim() returns it.
class Dim {
 public:
  explicit Dim(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  operator Expr() const { return index_value(Symbol::dim(name_)); }  // NOLINT: a dim is a number

 private:
  std::string name_;
};

/// A loop variable. In text it is called as the declared indices of its range are, or by the next of i, j, k, ...; an
/// axis with a name keeps that.
class Index {
 public:
  /// 0 <= i < extent
  explicit Index(const Expr& extent, std::string name = "") : Index(0, extent, std::move(name)) {}
  /// low <= i < high, affine in dims and in indices around this one.
  Index(const Expr& low, const Expr& high, std::string name = "");
  /// The same index; an axis of it has `extent` elements. Wanted where the range depends on other axes.
  Index of(const Expr& extent) const;

  operator Expr() const { return index_value(symbol_); }  // NOLINT: an index is a number
  Symbol symbol() const { return symbol_; }
  const Range& range() const { return range_; }
  const std::optional<Affine>& extent() const { return extent_; }
  const std::string& name() const { return name_; }

 private:
  Symbol symbol_ = Symbol::fresh();
  Range range_;
  std::optional<Affine> extent_;
  std::string name_;
};

/// An input or definition, as Program returns it. Called with one subscript per axis it reads an element; a scalar is
/// its own value.
class Tensor {
 public:
  Tensor(std::string name, std::size_t rank) : name_(std::move(name)), rank_(rank) {}
  const std::string& name() const { return name_; }
  template <class... Subscripts>
  Expr operator()(const Subscripts&... subscripts) const {
    return at({Expr(subscripts)...});
  }
  /// Throws ShapeError for a wrong number of subscripts, TypeError for one that is not affine.
  Expr at(const std::vector<Expr>& subscripts) const;
  operator Expr() const { return at({}); }  // NOLINT: a scalar is a number

 private:
  std::string name_;
  std::size_t rank_;
};

/// One index of a scan over two: `p.scan(i, j, ..)`, or `p.scan({i, backwards}, j, ..)`.
struct ScanIndex {
  ScanIndex(Index steps) : index(std::move(steps)) {}  // NOLINT: p.scan(i, j, ..)
  ScanIndex(Index steps, Backwards) : index(std::move(steps)), is_backwards(true) {}
  Index index;
  bool is_backwards = false;
};

/// The definitions of a scan. Each has the scan's index as its first axis, or its two as the first ones. What a
/// definition reads of one further down, at another step, is called by name and number of axes:
///
///   const Tensor h("h", 2);
///   p.scan(t, [&](ScanBody& step) {
///     const Tensor before = step.let("before", {t, n}, where(equal(t, 0), h0(n), h(t - 1, n)));
///     step.output("h", {t, n}, tanh(x(t, n) + before(t, n)));
///   });
class ScanBody {
 public:
  Tensor let(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
             const Declared& declared = {});
  Tensor output(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                const Declared& declared = {});
  /// Like let(), but no longer there once the step is done: a derivative computes it again, from what is kept.
  Tensor recompute(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                   const Declared& declared = {});

 private:
  friend struct Program;
  ScanBody(Program& program, std::vector<ScanIndex> steps, Scan scan)
      : program_(program), steps_(std::move(steps)), scan_(std::move(scan)) {}
  static void append(Program& program, const std::vector<ScanIndex>& steps, Scan scan,
                     const std::function<void(ScanBody&)>& write);
  Definition& add(const std::string& tensor, const std::vector<Index>& axes, const Expr& body, const Declared& declared,
                  bool output);

  Program& program_;
  std::vector<ScanIndex> steps_;
  Scan scan_;
};

/// The affine expression that `expr` computes. Throws TypeError where it is more than that.
Affine to_affine(const Expr& expr);

/// floor(index/divisor) and index - divisor*floor(index/divisor), of an affine expression in indices, as a number and
/// in subscripts: x(quotient(i, 2), remainder(i, 2)). Throws TypeError unless the divisor is positive.
Expr quotient(const Expr& index, std::int64_t divisor);
Expr remainder(const Expr& index, std::int64_t divisor);

// ---- Conditions: a type of their own, so that a bool of C++ cannot stand for one by mistake. ----

class Condition {
 public:
  explicit Condition(Expr truth) : truth_(std::move(truth)) {}
  const Expr& truth() const { return truth_; }

 private:
  Expr truth_;
};

/// Affine operands are taken as such, as the text form does: a guard on indices can then prove that an access stays
/// inside its tensor.
Condition compare(const char* comparison, const Expr& a, const Expr& b);

inline Condition operator<(const Expr& a, const Expr& b) { return compare("<", a, b); }
inline Condition operator<=(const Expr& a, const Expr& b) { return compare("<=", a, b); }
inline Condition operator>(const Expr& a, const Expr& b) { return compare(">", a, b); }
inline Condition operator>=(const Expr& a, const Expr& b) { return compare(">=", a, b); }
inline Condition equal(const Expr& a, const Expr& b) { return compare("==", a, b); }
inline Condition not_equal(const Expr& a, const Expr& b) { return compare("!=", a, b); }
inline Condition operator&&(const Condition& a, const Condition& b) {
  return Condition(call("and", {a.truth(), b.truth()}));
}
inline Condition operator||(const Condition& a, const Condition& b) {
  return Condition(call("or", {a.truth(), b.truth()}));
}
inline Condition operator!(const Condition& a) { return Condition(call("not", {a.truth()})); }
Expr where(const Condition& condition, const Expr& a, const Expr& b);

// ---- Scalar functions: one for each row of the table in compiler/expression/functions.cpp. ----

inline Expr sq(const Expr& x) { return call("pow", {x, 2}); }
inline Expr pow(const Expr& x, const Expr& exponent) { return call("pow", {x, exponent}); }
inline Expr exp(const Expr& x) { return call("exp", {x}); }
inline Expr exp2(const Expr& x) { return call("exp2", {x}); }
inline Expr expm1(const Expr& x) { return call("expm1", {x}); }
inline Expr log(const Expr& x) { return call("log", {x}); }
inline Expr log2(const Expr& x) { return call("log2", {x}); }
inline Expr log1p(const Expr& x) { return call("log1p", {x}); }
inline Expr sqrt(const Expr& x) { return call("sqrt", {x}); }
inline Expr rsqrt(const Expr& x) { return call("rsqrt", {x}); }
inline Expr sin(const Expr& x) { return call("sin", {x}); }
inline Expr cos(const Expr& x) { return call("cos", {x}); }
inline Expr abs(const Expr& x) { return call("abs", {x}); }
inline Expr sign(const Expr& x) { return call("sign", {x}); }
inline Expr floor(const Expr& x) { return call("floor", {x}); }
inline Expr relu(const Expr& x) { return call("relu", {x}); }
inline Expr tanh(const Expr& x) { return call("tanh", {x}); }
inline Expr sigmoid(const Expr& x) { return call("sigmoid", {x}); }
inline Expr softplus(const Expr& x) { return call("softplus", {x}); }
inline Expr erf(const Expr& x) { return call("erf", {x}); }
inline Expr erfc(const Expr& x) { return call("erfc", {x}); }
inline Expr normal_cdf(const Expr& x) { return call("normal_cdf", {x}); }
inline Expr normal_pdf(const Expr& x) { return call("normal_pdf", {x}); }
inline Expr log_normal_cdf(const Expr& x) { return call("log_normal_cdf", {x}); }
inline Expr lgamma(const Expr& x) { return call("lgamma", {x}); }
inline Expr digamma(const Expr& x) { return call("digamma", {x}); }
inline Expr trigamma(const Expr& x) { return call("trigamma", {x}); }
inline Expr atan(const Expr& x) { return call("atan", {x}); }
inline Expr atan2(const Expr& y, const Expr& x) { return call("atan2", {y, x}); }
inline Expr asin(const Expr& x) { return call("asin", {x}); }
inline Expr acos(const Expr& x) { return call("acos", {x}); }
inline Expr erfinv(const Expr& x) { return call("erfinv", {x}); }
inline Expr i0e(const Expr& x) { return call("i0e", {x}); }
inline Expr i1e(const Expr& x) { return call("i1e", {x}); }
/// x, which derivatives take for a constant.
inline Expr stop_gradient(const Expr& x) { return call("stop_gradient", {x}); }
/// The value; its derivative is that of `value`, and `slope` times that of `x`.
inline Expr with_slope(const Expr& value, const Expr& x, const Expr& slope) {
  return call("with_slope", {value, x, slope});
}
/// (e - m)^2, where m is the mean of all e. Its derivative is taken for 2*(e - m) times that of e alone: what follows
/// from m adds up to 0 over all elements.
inline Expr squared_deviation(const Expr& e, const Expr& m) { return call("squared_deviation", {e, m}); }
/// f(x), whose derivative by x is `slope` in the place of what follows from f. By all else that f reads it follows.
template <class Function>
Expr with_derivative(const Function& f, const Expr& x, const Expr& slope) {
  return with_slope(f(stop_gradient(x)), x, slope);
}
inline Expr f32(const Expr& x) { return call("f32", {x}); }
inline Expr f64(const Expr& x) { return call("f64", {x}); }
/// Of two numbers. max(i, e) with a bare Index in front is the reduction below; Expr(i) takes the index as a number.
inline Expr min(const Expr& a, const Expr& b) { return call("min", {a, b}); }
inline Expr max(const Expr& a, const Expr& b) { return call("max", {a, b}); }

// ---- Compositions of these, as the text form has them. ----

inline Expr clamp(const Expr& x, const Expr& low, const Expr& high) { return min(max(x, low), high); }
inline Expr log_sigmoid(const Expr& x) { return -softplus(-x); }
inline Expr silu(const Expr& x) { return x * sigmoid(x); }
/// x times the normal distribution function of x.
inline Expr gelu(const Expr& x) { return x * normal_cdf(x); }
/// log(1 - e^x), for x < 0.
Expr log1mexp(const Expr& x);
/// To the nearest whole number, halves to even ones. Its derivative is 0.
Expr round(const Expr& x);
inline Expr log10(const Expr& x) { return log(x) / 2.302585092994046; }
inline Expr tan(const Expr& x) { return sin(x) / cos(x); }
inline Expr ceil(const Expr& x) { return -floor(-x); }
Expr sinh(const Expr& x);
Expr cosh(const Expr& x);
Expr asinh(const Expr& x);
/// Of x >= 1.
Expr acosh(const Expr& x);
/// Of -1 < x < 1.
inline Expr atanh(const Expr& x) { return Expr(0.5) * (log1p(x) - log1p(-x)); }

// ---- Reductions over one index or several, the first outermost. ----

Expr reduce(ReduceKind kind, std::initializer_list<Index> indices, const Expr& body);

inline Expr sum(const Index& index, const Expr& body) { return reduce(ReduceKind::Sum, {index}, body); }
inline Expr prod(const Index& index, const Expr& body) { return reduce(ReduceKind::Product, {index}, body); }
inline Expr max(const Index& index, const Expr& body) { return reduce(ReduceKind::Max, {index}, body); }
inline Expr min(const Index& index, const Expr& body) { return reduce(ReduceKind::Min, {index}, body); }
inline Expr logsumexp(const Index& index, const Expr& body) { return reduce(ReduceKind::LogSumExp, {index}, body); }
/// The index of the largest (smallest) element, the first of equal ones; infinite if there is no element. Derivatives
/// take it for constant.
inline Expr argmax(const Index& index, const Expr& body) { return reduce(ReduceKind::ArgMax, {index}, body); }
inline Expr argmin(const Index& index, const Expr& body) { return reduce(ReduceKind::ArgMin, {index}, body); }
inline Expr sum(std::initializer_list<Index> indices, const Expr& body) {
  return reduce(ReduceKind::Sum, indices, body);
}
inline Expr prod(std::initializer_list<Index> indices, const Expr& body) {
  return reduce(ReduceKind::Product, indices, body);
}
inline Expr max(std::initializer_list<Index> indices, const Expr& body) {
  return reduce(ReduceKind::Max, indices, body);
}
inline Expr min(std::initializer_list<Index> indices, const Expr& body) {
  return reduce(ReduceKind::Min, indices, body);
}
inline Expr logsumexp(std::initializer_list<Index> indices, const Expr& body) {
  return reduce(ReduceKind::LogSumExp, indices, body);
}

/// Whether the condition holds in some iteration, or in all: no and yes without iterations.
Condition any(const Index& index, const Condition& condition);
Condition all(const Index& index, const Condition& condition);

/// The sum divided by the number of iterations.
Expr mean(std::initializer_list<Index> indices, const Expr& body);
inline Expr mean(const Index& index, const Expr& body) { return mean({index}, body); }
/// The mean of the squared deviations from the mean, NaN without iterations: the variance of a population, which
/// divides by n. Computed in two passes; its derivative by each element is 2*(element - mean)/n exactly.
Expr variance(std::initializer_list<Index> indices, const Expr& body);
inline Expr variance(const Index& index, const Expr& body) { return variance({index}, body); }
/// exp(body - logsumexp(index, body)) at the index of the same name around it, and its logarithm. Nothing overflows.
/// The softmax of what a mask leaves out, where(condition, body, -inf), is 0.
inline Expr log_softmax(const Index& index, const Expr& body) { return body - logsumexp(index, body); }
Expr softmax(const Index& index, const Expr& body);

/// The elements of a row in ascending order, NaN last, and their positions in that order: at the index of the same name
/// around it, or at `element`, which is affine in indices and dims.
Expr sort(const Index& index, const Expr& row);
Expr sort(const Index& index, const Expr& row, const Expr& element);
Expr argsort(const Index& index, const Expr& row);
Expr argsort(const Index& index, const Expr& row, const Expr& element);

// ---- Linear algebra on matrix[row,col]. As in the text form, the result is the element at the indices of the same
// names around it: inverse(r, t, K(n, r, t)) is element [r,t]; of the solves, with the right-hand side over `row`, it
// is element [col]. ----

Expr cholesky(const Index& row, const Index& col, const Expr& matrix);
Expr inverse(const Index& row, const Index& col, const Expr& matrix);
Expr logdet(const Index& row, const Index& col, const Expr& matrix);
Expr solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs);
Expr tri_solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs);
Expr tri_solve_transposed(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs);
Expr cholesky_inverse(const Index& row, const Index& col, const Expr& matrix);
Expr lu_solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs);
Expr lu_solve_transposed(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs);
Expr lu_inverse(const Index& row, const Index& col, const Expr& matrix);
Expr determinant(const Index& row, const Index& col, const Expr& matrix);
Expr log_abs_determinant(const Index& row, const Index& col, const Expr& matrix);
Expr eigenvalues(const Index& row, const Index& col, const Expr& matrix);
Expr eigenvectors(const Index& row, const Index& col, const Expr& matrix);
Expr qr_q(const Index& row, const Index& col, const Expr& matrix);
/// Element [i,j]: of a matrix with more rows than columns, the index of its rows has too many values.
Expr qr_r(const Index& row, const Index& col, const Expr& matrix, const Expr& i, const Expr& j);
/// The matrix has at least as many rows as columns. Element [col] of its singular values, descending; component [row]
/// of the left singular vector [col]; component `c` of the right singular vector `t`.
Expr singular_values(const Index& row, const Index& col, const Expr& matrix);
Expr svd_u(const Index& row, const Index& col, const Expr& matrix);
Expr svd_v(const Index& row, const Index& col, const Expr& matrix, const Expr& c, const Expr& t);

// ---- Random draws of a stream, one per element of the coordinates. ----

Expr randn(std::int64_t stream, const std::vector<Expr>& coordinates);
Expr randu(std::int64_t stream, const std::vector<Expr>& coordinates);

}  // namespace moxie
