#pragma once
// Between which numbers expressions lie: interval analysis from the declared domains of inputs and definitions and from
// what the function table says.
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/expression/interval.h"
#include "compiler/program/program.h"

namespace moxie {

/// Ranges of values in one Program, which must outlive this; they hold for every value that is not NaN. That large
/// numbers overflow, and that small ones become zero, counts as rounding and does not show in open ends. Each node and
/// each definition is looked into once, however often it is asked for: bodies that read a definition twice would
/// otherwise take time exponential in the length of the chain.
class ValueRanges {
 public:
  explicit ValueRanges(const Program& program) : program_(program) {}
  Interval of(const Expr& expr);

 private:
  Interval of_node(const Expr& expr);
  Interval of_tensor(const std::string& name);
  Interval of_definition(const Definition& definition);
  Interval of_reduction(const Expr& expr);
  Interval of_call(const Expr& expr);
  Interval of_branch(const Expr& branch, const Expr& condition, bool holds);
  Interval of_power(const Expr& base, const Expr& exponent);

  const Program& program_;
  std::unordered_map<const Node*, std::pair<Expr, Interval>> nodes_;  // keeps its keys alive
  std::map<std::string, Interval> tensors_;
};

/// For a single question; for several of the same Program, ask one ValueRanges.
Interval range_of(const Expr& expr, const Program& program);

}  // namespace moxie
