#pragma once
// How well estimated costs of kernels agree with measured times: `moxie doctor --estimates`.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/schedule/cost.h"
#include "tools/commands/program_choice.h"

namespace moxie {

struct EstimateOptions {
  std::vector<std::string> sources;                         // .mox files, folders of them, built-in formulas
  std::vector<std::int64_t> extents = {16, 64, 256, 1024};  // of all dims that a formula leaves open
  bool gradients = true;
};

/// One kernel at given extents, on one thread.
struct EstimatedKernel {
  std::string formula, kernel;
  std::int64_t extent = 0;
  Cost cost;
  double measured = 0;  // seconds
};

/// Compiles and runs the formulas. Those that do not take an extent are left out there.
std::vector<EstimatedKernel> compare_estimates(const EstimateOptions& options, const Machine& machine);

/// Spearman's rank correlation of estimated and measured times; 1 for fewer than two kernels.
double rank_correlation(const std::vector<EstimatedKernel>& kernels);

std::string estimates_table(const std::vector<EstimatedKernel>& kernels, const Machine& machine);
std::string estimates_json(const std::vector<EstimatedKernel>& kernels, const Machine& machine);

}  // namespace moxie
