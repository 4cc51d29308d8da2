#pragma once
// What `moxie check` works on: a formula at a random point of its domain, and its derivatives by finite differences.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/program.h"

namespace moxie {

struct Sample {
  Program program;   // in double
  Program gradient;  // the same with grad.x of every x in `wrt`, and inputs cot.y
  std::vector<std::string> wrt;
  DimValues dims;
  TensorValues inputs;
  std::set<std::string> symmetric;  // inputs drawn as covariances
  TensorValues wanted;              // the values that the language defines for `gradient`
};

std::vector<std::string> outputs_of(const Program& program);

/// Differentiates all outputs with respect to `wrt` (all inputs if it is empty). Throws DeviceError if no random point
/// lies in the formula's domain.
Sample make_sample(const Program& program, const DimValues& dims, const std::vector<std::string>& wrt,
                   std::uint64_t seed);

/// Pairs (finite difference, grad.x) for at most `count` elements of the input x, chosen at random. The two elements of
/// a covariance that are equal move together.
std::vector<std::pair<double, double>> finite_differences(const Sample& sample, const std::string& input,
                                                          std::size_t count, std::uint64_t seed);

}  // namespace moxie
