#pragma once
// What is known of an expression's sign, from the declared domains of inputs and definitions.
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "compiler/ir/program.h"

namespace moxie {

enum class Sign : std::uint8_t { Unknown, NonNegative, Positive, NonPositive, Negative, Zero };

/// The finite arguments for which a function is certainly finite, overflow of sums and products aside. Unknown: for
/// none that a sign tells, or the function has rules of its own (division, pow).
enum class FiniteFor : std::uint8_t { AllNumbers, NonPositive, NonNegative, Positive, Unknown };
FiniteFor finite_for(std::string_view function);
/// Whether a number of that sign is such an argument.
bool admits(FiniteFor arguments, Sign sign);

/// Signs in one Program, which must outlive this. Each node and each definition is looked into once, however often it
/// is asked for: bodies that read a definition twice would otherwise take time exponential in the length of the chain.
class Signs {
 public:
  explicit Signs(const Program& program) : program_(program) {}
  Sign of(const Expr& expr);

 private:
  Sign of_node(const Expr& expr);
  Sign of_tensor(const std::string& name);
  Sign of_definition(const Definition& definition);
  Sign of_call(const Expr& expr);
  Sign of_branch(const Expr& branch, const Expr& condition, bool holds);
  Sign of_power(const Expr& base, const Expr& exponent);
  Sign of_extreme(const Expr& expr);
  Sign of_sum_or_product(const Expr& expr);

  const Program& program_;
  std::unordered_map<const Node*, std::pair<Expr, Sign>> nodes_;  // keeps its keys alive
  std::map<std::string, Sign> tensors_;
};

/// For a single question; for several of the same Program, ask one Signs.
Sign sign_of(const Expr& expr, const Program& program);
bool is_non_negative(Sign sign);
bool is_non_positive(Sign sign);
/// Whether a sign says all that the declared domain says of the sign.
bool says_all_of(Sign sign, const ValueDomain& declared);

}  // namespace moxie
