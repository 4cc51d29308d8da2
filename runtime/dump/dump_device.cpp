#include "runtime/dump/dump_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "compiler/support/error.h"
#include "runtime/dump/dump_folder.h"
#include "runtime/dump/launch_timer.h"
#include "runtime/file_name.h"
#include "runtime/log.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

class DumpDevice : public Device {
 public:
  DumpDevice(std::shared_ptr<Device> device, fs::path folder, DumpOptions options,
             std::shared_ptr<const LaunchTimer> timer)
      : device_(std::move(device)),
        folder_(std::move(folder)),
        options_(std::move(options)),
        timer_(std::move(timer)) {}
  /// Adds what the kernels took.
  ~DumpDevice() override {
    for (Written& written : written_) {
      const auto seconds = timer_->least_seconds(*written.plan);
      if (seconds.empty()) continue;
      add_measurements(written.dump, seconds);
      try {
        write_dump(written.dump, written.folder);
      } catch (const Error& error) {
        log_info(LogChannel::Runtime, "MOXIE_DUMP: {} stays without measured times: {}", written.folder.string(),
                 error.what());
      }
    }
  }

  std::string name() const override { return device_->name(); }
  std::optional<GpuModel> gpu() const override { return device_->gpu(); }
  CacheStats cache_stats() const override { return device_->cache_stats(); }
  std::size_t overridden_kernels() const override { return device_->overridden_kernels(); }
  std::unique_ptr<Buffer> make_buffer() override { return device_->make_buffer(); }
  std::unique_ptr<Buffer> view_buffer(const TensorView& view) override { return device_->view_buffer(view); }
  bool has_own_memory() const override { return device_->has_own_memory(); }
  void wait() override { device_->wait(); }
  PlanTarget plan_target(const Program& program) const override { return device_->plan_target(program); }

  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    // Written first, so that what fails to compile can be looked at.
    const Dump dump = make_dump(compilation_of(*plan, dims), options_);
    if (!dump.kernels.empty() || options_.kernels.empty()) {
      const fs::path folder = next_folder(plan->program.name);
      write_dump(dump, folder);
      const std::scoped_lock lock(mutex_);
      written_.push_back({folder, plan, dump});
    }
    return device_->prepare(std::move(plan), dims);
  }

 private:
  /// The plan that is to run, and the one for the other kind of device where somebody named stages of that.
  Compilation compilation_of(const Plan& plan, const DimValues& dims) const {
    const bool on_cpu = device_->plan_target(plan.program).machine != nullptr;
    const bool named = !options_.stages.empty();
    const auto names = [&](Stage::Of device) {
      return named && std::ranges::any_of(dump_stages(), [&](const Stage& stage) {
               return stage.of == device && is_wanted(options_, stage.name);
             });
    };
    const DumpedDevices others{!on_cpu && names(Stage::Of::cpu), on_cpu && names(Stage::Of::gpu)};
    Compilation compilation = compile_for(others, plan.program, plan.program, dims, options_);
    (on_cpu ? compilation.cpu : compilation.gpu) = plan;
    return compilation;
  }

  fs::path next_folder(const std::string& program) const {
    static std::atomic<int> number = 0;  // one count for all devices of a process
    std::string name = fmt::format("{:02}_{}", number++, program);
    std::ranges::replace(name, '/', '_');
    return path_inside(folder_, name, "MOXIE_DUMP");
  }

  struct Written {
    fs::path folder;
    std::shared_ptr<const Plan> plan;
    Dump dump;
  };

  std::shared_ptr<Device> device_;
  fs::path folder_;
  DumpOptions options_;
  std::shared_ptr<const LaunchTimer> timer_;
  std::vector<Written> written_;
  std::mutex mutex_;  // of `written_`
};

bool names_gpu_code(const std::vector<std::string>& stages) {
  return std::ranges::any_of(stages, [](const std::string& stage) { return stage == "ptx" || stage == "sass"; });
}

}  // namespace

std::shared_ptr<Device> open_dumping(const std::function<std::shared_ptr<Device>(const DeviceOptions&)>& open,
                                     DeviceOptions options) {
  const std::string folder = option_or_switch(options.dump.folder, "MOXIE_DUMP");
  if (folder.empty()) return open(options);
  DumpOptions dump;
  dump.kernels = option_or_switch(options.dump.kernels, "MOXIE_DUMP_FILTER");
  dump.stages = split_list(option_or_switch(options.dump.stages, "MOXIE_DUMP_STAGES"));
  dump.cache_directory = options.cache_directory;
  dump.schedule = options.schedule;
  dump.programs = options.programs;
  const auto timer = std::make_shared<LaunchTimer>();
  if (!options.observer) options.observer = timer;
  std::shared_ptr<Device> device = open(options);
  if (const auto gpu = device->gpu()) dump.gpu = *gpu, dump.gpu_is_assumed = false;
  if (dump.gpu_is_assumed && !names_gpu_code(dump.stages))
    dump.no_gpu_code =
        fmt::format("device {} runs no code of a GPU; name ptx or sass in MOXIE_DUMP_STAGES to have it all the same",
                    device->name());
  return std::make_shared<DumpDevice>(std::move(device), folder, std::move(dump), timer);
}

}  // namespace moxie
