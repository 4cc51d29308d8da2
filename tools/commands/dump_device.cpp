#include "tools/commands/dump_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <regex>

#include "compiler/support/error.h"
#include "runtime/atomic_file.h"
#include "tools/commands/stages.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

class DumpDevice : public Device {
 public:
  DumpDevice(std::shared_ptr<Device> device, DumpDeviceOptions options)
      : device_(std::move(device)), options_(std::move(options)), filter_(options_.filter) {}

  std::string name() const override { return device_->name(); }
  CacheStats cache_stats() const override { return device_->cache_stats(); }
  std::size_t overridden_kernels() const override { return device_->overridden_kernels(); }
  std::unique_ptr<Buffer> make_buffer() override { return device_->make_buffer(); }
  void wait() override { device_->wait(); }

  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    // Written first, so that what fails to compile can be looked at.
    Compilation compilation{plan->program, plan->program, *plan, dims};
    keep_matching(compilation.plan);
    if (!compilation.plan.steps.empty()) write(compilation);
    return device_->prepare(std::move(plan), dims);
  }

 private:
  bool matches(const std::string& name) const { return options_.filter.empty() || std::regex_search(name, filter_); }

  /// Leaves the kernels, and the library calls, whose names match.
  void keep_matching(Plan& plan) const {
    const auto is_other = [&](const auto& step) {
      if (const auto* product = std::get_if<MatrixProduct>(&step)) return !matches(product->definition.name);
      return !matches(std::get<LoweredKernel>(step).program.name);
    };
    std::erase_if(plan.steps, [&](PlanStep& step) {
      auto* scan = std::get_if<LoweredScan>(&step);
      if (!scan) return is_other(step);
      std::erase_if(scan->steps, is_other);
      return scan->steps.empty();
    });
  }

  bool is_wanted(std::string_view stage) const {
    return options_.stages.empty() || std::ranges::find(options_.stages, stage) != options_.stages.end();
  }

  void write(const Compilation& compilation) {
    static std::atomic<int> number = 0;  // one count for all devices of a command
    const fs::path folder = options_.folder / fmt::format("{:02}_{}", number++, compilation.source.name);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      throw DataError(fmt::format("MOXIE_DUMP: cannot make the folder {}: {}", folder.string(), error.message()));
    for (const Stage& stage : stages()) {
      if (is_wanted(stage.name)) atomic_write(folder / fmt::format("{}.txt", stage.name), stage.text(compilation));
    }
    if (!is_wanted("llvm")) return;
    for (const KernelFile& file : kernel_files(compilation)) atomic_write(folder / file.name, file.text);
  }

  std::shared_ptr<Device> device_;
  DumpDeviceOptions options_;
  std::regex filter_;
};

}  // namespace

std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, DumpDeviceOptions options) {
  return std::make_shared<DumpDevice>(std::move(device), std::move(options));
}

}  // namespace moxie
