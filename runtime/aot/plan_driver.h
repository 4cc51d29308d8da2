#pragma once
// PlanDriver: the steps of a Plan as host functions of an AOT library, with the caller's memory and for any dims. What
// a kind of device does differently, CpuDriver and CudaDriver supply.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/aot/call_checks.h"
#include "runtime/aot/workspace.h"

namespace moxie::aot {

/// Where a scan is: the step, and how many come after it.
struct StepValues {
  Val step, left;
};

/// Writes one function: after either of the two public members the driver has done its work.
class PlanDriver {
 public:
  virtual ~PlanDriver() = default;

  /// Stores the bytes of the workspace where %bytes points to.
  void write_workspace();
  /// Runs all steps.
  void write_run();

 protected:
  /// `head` is all before the function's brace.
  PlanDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface);

  /// The number of chunks of a kernel's reductions, 1 where there are none. A kernel that runs in slices has that of
  /// the first slice in all of them.
  virtual Val chunks_of(const LoweredKernel& kernel) = 0;
  /// What lies in the workspace before its slots.
  virtual Val bytes_before_slots() = 0;
  virtual void clear(const Pointer& from, const Val& bytes) = 0;
  virtual void run_kernel(const LoweredKernel& kernel, const std::optional<StepValues>& at) = 0;
  /// Puts elements of what a slice has of a sum into the whole tensor, or adds them to what is there.
  virtual void add_part(const std::string& part, const Pointer& whole, const Val& adds) = 0;
  /// Before the first step.
  virtual void start() {}
  /// Leaves where a tensor is larger than the device's code reaches.
  virtual void check_reach() {}

  /// How many elements one launch writes of a tensor.
  Val written_count(const LoweredKernel& kernel, const std::string& tensor);
  /// Where a launch leaves a tensor that chunks may share: in a scan, at the step's slice.
  Pointer target_of(const LoweredKernel& kernel, const std::string& tensor, const std::optional<StepValues>& at);
  const Pointer& place_of(const std::string& tensor) const { return places_.at(tensor); }
  const Pointer& partials_of(const LoweredKernel& kernel, const std::string& tensor) const {
    return partials_.at({&kernel, tensor});
  }
  /// The value of an argument that tells where the scan is.
  Val scan_value(const std::string& argument, const StepValues& at);
  /// What a launch in so many chunks gets for one of its buffers; partial results are cleared where they have gaps.
  Pointer buffer_of(const LoweredKernel& kernel, const BufferUse& use, const Val& chunks,
                    const std::optional<StepValues>& at);

  FunctionWriter w_;
  const Plan& plan_;
  const Interface& interface_;
  const Call call_;
  DimMath math_;       // with the dims of a slice while its steps are written
  Pointer workspace_;  // its first aligned address

 private:
  Val bytes_of(const Block& block);
  SlotPlaces measure_workspace();
  void place_workspace(const SlotPlaces& slots);
  void clear_gaps();
  void write(const MatrixProduct& product, const std::optional<StepValues>& at);
  void write(const AlgebraCall& call, const std::optional<StepValues>& at);
  void write(const OrderedSumCall& call, const std::optional<StepValues>& at);
  void write(const LoweredSlices& step, const std::optional<StepValues>& at);
  void write_slice(const LoweredSlices& step);
  Pointer part_of_whole(const SliceView& view);
  void clear_sums(const Slices& slices);
  void write(const LoweredScan& scan, const std::optional<StepValues>& at);
  void write(const LoweredKernel& kernel, const std::optional<StepValues>& at) { run_kernel(kernel, at); }

  const WorkspaceLayout layout_;
  std::map<std::string, Pointer> places_;  // those of views are of one slice
  std::map<std::pair<const LoweredKernel*, std::string>, Pointer> partials_;
};

}  // namespace moxie::aot
