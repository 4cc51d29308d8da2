#pragma once
// The benchmark cases, as data.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"

namespace moxie {

/// What is measured of a case: the same inputs, more and more work.
struct BenchPrograms {
  Program forward;                                            // outputs only
  std::optional<Program> forward_backward;                    // outputs and gradients, as one Program
  std::optional<Program> step;                                // with the optimiser's update
  std::vector<std::pair<std::string, std::string>> feedback;  // outputs of a step that become inputs
  std::vector<TensorValues> inputs;                           // the first that the formula takes is used
};

struct BenchCase {
  std::string_view name;
  std::string_view summary;
  std::vector<std::pair<std::string_view, std::int64_t>> dims;
  BenchPrograms (*make)(const BenchCase& bench, const DimValues& dims);
  /// A case of the catalogue: the operation, and what is differentiated with respect to what.
  std::string_view op = {};
  std::vector<std::string> outputs = {}, wrt = {};
  /// Bytes that a forward and a backward pass, one after the other, cannot do without. 0: not said.
  std::int64_t (*least_bytes)(const DimValues& dims) = nullptr;
  bool has_products = false;  // whose time is measured by itself
};

/// A case or a formula, ready to be measured.
struct BenchSubject {
  std::string name;  // of the case or operation; a file's is without its folder and ending
  DimValues dims;
  BenchPrograms programs;
  std::vector<std::string> outputs, wrt;  // what is differentiated with respect to what; empty for training steps
  std::string no_gradient = {};           // the reason, where there is no gradient
  const BenchCase* bench = nullptr;       // null for a formula
};

std::span<const BenchCase> bench_cases();
/// The case, or nullptr.
const BenchCase* find_bench_case(std::string_view name);

}  // namespace moxie
