#pragma once
// The benchmark cases, as data.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/program.h"

namespace moxie {

/// What is measured of a case: the same inputs, more and more work.
struct BenchPrograms {
  Program forward;                                            // outputs only
  Program forward_backward;                                   // outputs and gradients, as one Program
  std::optional<Program> step;                                // with the optimiser's update
  std::vector<std::pair<std::string, std::string>> feedback;  // outputs of a step that become inputs
  TensorValues inputs;
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

std::span<const BenchCase> bench_cases();
/// Throws UsageError for an unknown name, with the list of those there are.
const BenchCase& find_bench_case(std::string_view name);

}  // namespace moxie
