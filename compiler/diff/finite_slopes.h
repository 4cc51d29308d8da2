#pragma once
// Which local derivatives may be infinite or NaN where the formula has a value that nothing reads.
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/ir/program.h"
#include "compiler/ir/signs.h"

namespace moxie {

/// Whether expressions are finite numbers wherever inputs are, and obey their declared domains. Overflow counts as
/// rounding, but for exponentials, which must be known not to grow. Numbers that depend on indices only are taken for
/// finite. Answers are kept.
class FiniteSlopes {
 public:
  /// The program must outlive this; definitions may be added to it.
  explicit FiniteSlopes(const Program& program) : program_(program), signs_(program) {}

  bool holds(const Expr& expr);

 private:
  bool compute(const Expr& expr);
  bool of_call(const Expr& expr);
  bool of_tensor(const std::string& name);
  bool is_never_zero(const Expr& expr);

  const Program& program_;
  Signs signs_;
  std::unordered_map<const Node*, std::pair<Expr, bool>> done_;  // keeps its keys alive
  std::map<std::string, bool, std::less<>> tensors_;
};

}  // namespace moxie
