#pragma once
// Support: where in its iteration space an expression may differ from a given value, such as the zero of a mask.
#include <map>
#include <string>
#include <vector>

#include "compiler/analysis/finite_values.h"
#include "compiler/program/index_domain.h"

namespace moxie {

/// Which laws tell that an expression has the value.
enum class SupportLaws : std::uint8_t {
  Choices,  // conditions on indices choose a branch
  All,      // also that zero times a number is zero, and that exp(-inf) is; in strict precision of finite numbers
};

/// Follows conditions on indices through an expression and through the definitions that it reads.
class Support {
 public:
  /// The program must outlive this.
  Support(const Program& program, SupportLaws laws) : program_(program), laws_(laws), finite_(program) {}

  /// Domains which together hold every point of `domain` where `expr` may be another value than `value`.
  std::vector<IndexDomain> outside(const Expr& expr, double value, const IndexDomain& domain);
  /// Constraints `affine >= 0` that conditions in `expr`, and in the definitions that it reads, state or deny.
  std::vector<Affine> constraints_in(const Expr& expr);

 private:
  using Domains = std::vector<IndexDomain>;

  Domains of(const Expr& expr, double value, const IndexDomain& domain);
  Domains of_call(const Expr& expr, double value, const IndexDomain& domain);
  /// The points where each of the arguments that `counts` tells of may be another value than `wanted`.
  template <class Counts>
  Domains of_every(const Expr& expr, double wanted, const IndexDomain& domain, Counts counts);
  Domains of_some(const Expr& expr, double value, const IndexDomain& domain);
  Domains of_unary(const Expr& expr, double value, const IndexDomain& domain);
  Domains of_reduction(const Expr& expr, double value, const IndexDomain& domain);
  bool is_finite(const Expr& expr);
  bool are_others_finite(const Expr& expr, const Expr& arg);
  /// Whether a definition holds conditions on indices.
  bool is_looked_into(const Definition& definition);
  const std::vector<Affine>& constraints_of_definition(const Definition& definition);
  /// The body of the definition at the element that `access` reads; empty where there is none to look into.
  Expr body_at(const Expr& access);

  const Program& program_;
  const SupportLaws laws_;
  FiniteValues finite_;
  int depth_ = 0;
  int looks_ = 0;  // at expressions, for one question
  std::map<std::string, bool> looked_into_;
  std::map<std::string, std::vector<Affine>> constraints_;  // of definitions, in their axes
};

}  // namespace moxie
