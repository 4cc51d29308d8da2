#include "tools/commands/dump_device.h"

#include <fmt/format.h>

#include "runtime/atomic_file.h"
#include "tools/commands/stages.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

class DumpDevice : public Device {
 public:
  DumpDevice(std::shared_ptr<Device> device, fs::path folder)
      : device_(std::move(device)), folder_(std::move(folder)) {}

  std::string name() const override { return device_->name(); }
  CacheStats cache_stats() const override { return device_->cache_stats(); }

  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    // Written first, so that what fails to compile can be looked at.
    write({plan->program, plan->program, *plan, dims});
    return device_->prepare(std::move(plan), dims);
  }

 private:
  void write(const Compilation& compilation) {
    const fs::path folder = folder_ / fmt::format("{:02}_{}", number_++, compilation.source.name);
    fs::create_directories(folder);
    for (const Stage& stage : stages())
      atomic_write(folder / fmt::format("{}.txt", stage.name), stage.text(compilation));
  }

  std::shared_ptr<Device> device_;
  fs::path folder_;
  int number_ = 0;
};

}  // namespace

std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, fs::path folder) {
  return std::make_shared<DumpDevice>(std::move(device), std::move(folder));
}

}  // namespace moxie
