#include "runtime/dump/dump_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "runtime/dump/dump_folder.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

class DumpDevice : public Device {
 public:
  DumpDevice(std::shared_ptr<Device> device, fs::path folder, DumpOptions options)
      : device_(std::move(device)), folder_(std::move(folder)), options_(std::move(options)) {}

  std::string name() const override { return device_->name(); }
  CacheStats cache_stats() const override { return device_->cache_stats(); }
  std::size_t overridden_kernels() const override { return device_->overridden_kernels(); }
  std::unique_ptr<Buffer> make_buffer() override { return device_->make_buffer(); }
  void wait() override { device_->wait(); }

  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    // Written first, so that what fails to compile can be looked at.
    const Dump dump = make_dump({plan->program, plan->program, *plan, dims}, options_);
    if (!dump.kernels.empty() || options_.kernels.empty()) write_dump(dump, next_folder(plan->program.name));
    return device_->prepare(std::move(plan), dims);
  }

 private:
  fs::path next_folder(const std::string& program) const {
    static std::atomic<int> number = 0;  // one count for all devices of a process
    return folder_ / fmt::format("{:02}_{}", number++, program);
  }

  std::shared_ptr<Device> device_;
  fs::path folder_;
  DumpOptions options_;
};

bool names_gpu_code(const std::vector<std::string>& stages) {
  return std::ranges::any_of(stages, [](const std::string& stage) { return stage == "ptx" || stage == "sass"; });
}

}  // namespace

std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, fs::path folder, DumpOptions options) {
  return std::make_shared<DumpDevice>(std::move(device), std::move(folder), std::move(options));
}

std::shared_ptr<Device> dumping(std::shared_ptr<Device> device, const DeviceOptions& options) {
  const std::string folder = switch_value("MOXIE_DUMP");
  if (folder.empty()) return device;
  DumpOptions dump;
  dump.kernels = switch_value("MOXIE_DUMP_FILTER");
  dump.stages = split_list(switch_value("MOXIE_DUMP_STAGES"));
  dump.cache_directory = options.cache_directory;
  dump.schedule = options.schedule.empty() ? switch_value("MOXIE_SCHEDULE") : options.schedule;
  if (!device->name().starts_with("cuda") && !names_gpu_code(dump.stages))
    dump.no_gpu_code = fmt::format("device {} runs no code of a GPU; name ptx or sass in MOXIE_DUMP_STAGES to have it all the same", device->name());
  return make_dump_device(std::move(device), folder, std::move(dump));
}

}  // namespace moxie
