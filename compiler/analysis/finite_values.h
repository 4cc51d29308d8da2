#pragma once
// What is known to be a finite number, from declared domains.
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/analysis/value_ranges.h"
#include "compiler/program/program.h"

namespace moxie {

/// What a proof takes for granted besides the declared domains, which hold finite numbers only.
enum class Granted : std::uint8_t {
  Nothing,
  /// Inputs are finite, whatever was declared, and so are numbers that depend on indices and dims only. Matrices are
  /// regular.
  FiniteInputs,
};

/// Whether expressions are numbers, neither infinite nor NaN. Overflow counts as rounding, but for exponentials, which
/// must be known not to grow. Answers are kept, so that shared subexpressions are looked at once.
class FiniteValues {
 public:
  /// The program must outlive this; definitions may be added to it.
  explicit FiniteValues(const Program& program, Granted granted = Granted::Nothing)
      : program_(program), granted_(granted), ranges_(program) {}

  bool holds(const Expr& expr);
  Interval range_of(const Expr& expr) { return ranges_.of(expr); }
  /// Whether the formula of a definition shows what proofs take from its declared domain: finite values, in its range.
  bool shows_domain_of(const Definition& definition);

 private:
  bool compute(const Expr& expr);
  bool compute_call(const Expr& expr);
  bool compute_power(const Expr& base, const Expr& exponent);
  bool compute_reduction(const Expr& expr);
  bool compute_tensor(const std::string& name);
  bool all_of(const std::vector<Expr>& exprs);
  bool is_never_zero(const Expr& expr);
  /// Whether the expression is granted to be finite: it depends on indices and dims only.
  bool is_granted(const Expr& expr) const;

  const Program& program_;
  const Granted granted_;
  ValueRanges ranges_;
  /// Keeps the key alive, so that no other node can take its address.
  std::unordered_map<const Node*, std::pair<Expr, bool>> done_;
  std::map<std::string, bool, std::less<>> tensors_;
};

}  // namespace moxie
