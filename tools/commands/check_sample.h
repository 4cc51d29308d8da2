#pragma once
// What `moxie check` works on: a formula at a random point of its domain, and its derivatives by finite differences.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"

namespace moxie {

struct Sample {
  Program program;   // in double
  Program gradient;  // the same with grad.x of every x in `wrt`, and inputs cot.y
  std::vector<std::string> wrt;
  DimValues dims;
  TensorValues inputs;
  std::set<std::string> symmetric;           // inputs drawn as covariances
  TensorValues wanted;                       // the values that the language defines for `gradient`
  std::shared_ptr<EvaluationBudget> budget;  // of all evaluations
};

/// Differentiates all outputs with respect to `wrt` (all inputs if it is empty). Throws DeviceError if no random point
/// lies in the formula's domain, BudgetError if its sums are too long to be evaluated element by element.
Sample make_sample(const Program& program, const DimValues& dims, const std::vector<std::string>& wrt,
                   std::uint64_t seed);

/// What `gradient` is where the default dtype is this one: derivatives mention the largest number of their dtype.
Program gradient_in(const Sample& sample, DType dtype);

/// These tensors and the definitions that are computed from them.
std::set<std::string> reached_from(const Program& program, std::set<std::string> tensors);

/// How far the values of each definition move at most where all inputs move by a small fraction of themselves, divided
/// by that fraction: what rounding is multiplied with.
std::map<std::string, double> sensitivities(const Sample& sample);

/// A slope from finite differences. It is uncertain by what differences over several distances contradict each other:
/// by much at kinks and jumps, and where digits cancel.
struct Slope {
  double value, uncertainty;
};
struct Difference {
  Slope slope;
  double gradient;  // what grad.x says
};
/// For at most `count` elements of the input x, chosen at random, and fewer where the budget ends before. The two
/// elements of a covariance that are equal move together.
std::vector<Difference> finite_differences(const Sample& sample, const std::string& input, std::size_t count,
                                           std::uint64_t seed);

}  // namespace moxie
