// Golden kernels: what the kernels of some formulas look like by the compiler's own count. A lost optimisation is a
// line that differs, without any timing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/atomic_file.h"
#include "runtime/plan.h"
#include "runtime/private_file.h"

using namespace moxie;

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> formulas() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(MOXIE_KERNELS_DIR)) {
    if (entry.path().extension() == ".mox") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string operations_text(const Cost& cost) {
  std::string text;
  for (std::size_t k = 0; k < kOperationClasses; ++k) {
    if (cost.operations.at(k) > 0)
      text += fmt::format("  {} {:.4g}\n", to_string(static_cast<OperationClass>(k)), cost.operations.at(k));
  }
  return text;
}

std::string bytes_text(const Cost& cost, const Machine& machine) {
  std::string text;
  for (std::size_t k = 0; k < machine.levels.size(); ++k)
    text +=
        fmt::format("  bytes between {} and {} {:.4g}\n", machine.levels[k].name,
                    k + 1 < machine.levels.size() ? machine.levels[k + 1].name : "memory", cost.traffic.at(k).bytes);
  return text;
}

/// Counts of a step of a scan are those of one launch.
std::string kernel_text(const LoweredKernel& kernel, const Plan& plan, DimValues dims, const Machine& machine) {
  if (kernel.in_scan) dims[kScanStep] = 0;
  const Cost cost = estimate(kernel, dims, machine);
  const auto choice = std::ranges::find(plan.choices, kernel.program.name, &ScheduleChoice::kernel);
  return fmt::format("kernel {}: {}\n  lanes {}, pieces {}\n", kernel.program.name,
                     choice == plan.choices.end() ? "without a choice" : choice->chosen, cost.lanes, cost.pieces) +
         operations_text(cost) + bytes_text(cost, machine);
}

/// On an assumed machine, so that the text is the same everywhere.
std::string golden_text(const std::string& formula) {
  const Machine& machine = default_machine("x86-64-v4");
  const Program program = specialise(parse(formula), {});
  const Plan plan = make_plan(program, {}, {.machine = &machine});
  DimValues dims;
  for (const DimDecl& dim : program.dims) dims[dim.name] = dim.value.value_or(256);
  std::string text = fmt::format("machine {}\n", machine.name);
  for (const PlanStep& step : plan.steps) {
    for (const MatrixProduct* product : products_of(step))
      text += fmt::format("matrix product {}\n", product_text(*product));
    for (const LoweredKernel* kernel : kernels_of(step)) text += kernel_text(*kernel, plan, dims, machine);
  }
  return text;
}

}  // namespace

TEST_CASE("kernels look as their golden files say") {
  REQUIRE(formulas().size() >= 12);
  const bool updates = std::getenv("GOLDEN_UPDATE") != nullptr;
  for (const fs::path& file : formulas()) {
    CAPTURE(file.filename().string());
    const std::string text = golden_text(read_regular_file(file).value());
    fs::path golden = file;
    golden.replace_extension(".txt");
    if (updates) atomic_write(golden, text);
    CHECK_MESSAGE(text == read_regular_file(golden).value_or(""),
                  "if this is meant: GOLDEN_UPDATE=1 build/bin/golden_kernels_test, and look at the difference");
  }
}
