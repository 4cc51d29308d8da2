#include "runtime/cpu/cpu_device.h"

#include <algorithm>

#include "runtime/cpu/cpu_executable.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/given_schedules.h"
#include "runtime/machine_file.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

class CpuDevice : public Device {
 public:
  CpuDevice(const DeviceOptions& options, const VectorMachine& machine)
      : resources_{machine,
                   cpu_machine(machine, options),
                   KernelCache(cache_directory(options)),
                   KernelOverrides(option_or_switch(options.kernel_override, "MOXIE_KERNEL_OVERRIDE")),
                   ThreadPool(chosen_threads(options.threads)),
                   options.tune,
                   options.observer},
        plan_cache_(cache_directory(options)),
        given_(given_schedules(options.schedule).nests) {}

  std::string name() const override { return "cpu"; }
  PlanTarget plan_target(const Program& /*program*/) const override {
    return {.machine = &resources_.figures, .given = given_};
  }
  KernelCache* plan_cache() override { return &plan_cache_; }
  CacheStats cache_stats() const override { return resources_.cache.stats(); }
  std::size_t overridden_kernels() const override { return resources_.overrides.count(); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    return make_cpu_executable(std::move(plan), dims, resources_);
  }

 private:
  CpuResources resources_;
  KernelCache plan_cache_;  // in the same folder, with counts of its own
  const GivenSchedules given_;
};

}  // namespace

Machine cpu_machine(const VectorMachine& machine, const DeviceOptions& options) {
  const auto level = std::ranges::find(machine_levels(), machine, &MachineLevel::machine);
  return level == machine_levels().end() ? default_machine("x86-64")
                                         : load_machine(level->name, cache_directory(options));
}

std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options, const VectorMachine& machine) {
  return std::make_shared<CpuDevice>(options, machine);
}

}  // namespace moxie
