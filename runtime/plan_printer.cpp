// Plans as text.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "runtime/constant_steps.h"
#include "runtime/plan.h"

namespace moxie {
namespace {

std::string describe(const MatrixProduct& product, int& number) {
  return fmt::format("{:3} matrix product {}\n", number++, product_text(product));
}

std::string describe(const AlgebraCall& call, int& number) {
  return fmt::format("{:3} library {}\n", number++, call_text(call));
}

std::string describe(const OrderedSumCall& call, int& number) {
  return fmt::format("{:3} {}\n", number++, call_text(call));
}

std::string describe(const LoweredKernel& kernel, int& number) {
  std::string text = fmt::format("{:3} kernel {}\n", number++, kernel.program.name);
  for (const std::string& comment : kernel.program.comments) text += "      " + comment + "\n";
  return text;
}

std::string describe(const LoweredScan& scan, int& number) {
  std::string text =
      fmt::format("    scan {} over {}{}:\n", scan.name, print(scan.extent), scan.backwards ? ", backwards" : "");
  for (const LoweredScanStep& step : scan.steps)
    text += std::visit([&](const auto& part) { return describe(part, number); }, step);
  return text;
}

std::string describe(const LoweredSlices& slices, int& number) {
  std::string axes;
  for (const SliceAxis& axis : slices.slices.axes)
    axes += fmt::format("{}{} of {} {}", axes.empty() ? "" : ", ", axis.block > 0 ? std::to_string(axis.block) : "sqrt",
                        print(axis.extent), axis.name);
  std::string text = fmt::format("    slices, {}{}:\n", axes, slices.slices.backwards ? ", backwards" : "");
  for (const LoweredSliceStep& step : slices.steps)
    text += std::visit([&](const auto& part) { return describe(part, number); }, step);
  return text;
}

}  // namespace

std::string print(const Plan& plan) {
  const std::vector<bool> constant = constant_steps(plan);
  std::string text;
  int number = 0;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    text += std::visit([&](const auto& part) { return describe(part, number); }, plan.steps[k]);
    if (constant[k]) text += "      in the first run only: it depends on no input\n";
  }
  return text;
}

}  // namespace moxie
