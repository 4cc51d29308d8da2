#pragma once
// CudaExecutable: a Plan on a Gpu. A run enqueues all of it and waits for nothing.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/cuda/cuda_buffer.h"
#include "runtime/cuda/gpu_algebra.h"
#include "runtime/cuda/graph_cache.h"
#include "runtime/cuda/loaded_kernel.h"
#include "runtime/cuda/platform.h"
#include "runtime/cuda/status_board.h"
#include "runtime/device.h"

namespace moxie::cuda {

/// Kernels of one Plan that are loaded, by what decides about their code besides the Plan. Executables share them.
struct SharedKernels {
  using Key = std::tuple<const LoweredKernel*, std::string, bool>;  // the preference as text, wide subscripts
  std::mutex mutex;
  std::map<Key, std::shared_ptr<const LoadedKernel>> loaded;
};

class CudaExecutable : public Executable {
 public:
  CudaExecutable(std::shared_ptr<Gpu> gpu, KernelBuilder& builder, const Multiply& multiply,
                 const std::shared_ptr<Solver>& solver, SharedKernels& shared, std::shared_ptr<const Plan> plan,
                 DimValues dims);
  ~CudaExecutable() override;

  /// The first run is enqueued piece by piece, since libraries load what they need on the way; later ones, without the
  /// constant steps, as one graph. Plans with linear algebra of a library are always enqueued piece by piece: its
  /// functions may wait for the stream or allocate, which a graph cannot record.
  void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) override;
  std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(arena_.size()); }

 private:
  struct Way {
    std::shared_ptr<const LoadedKernel> code;
    CudaGrid grid;
    std::string record;  // by which the cache remembers it
  };
  /// A kernel as it is launched for these extents.
  struct Launchable {
    std::vector<Way> ways;  // one, or several of which the first run finds the fastest
    std::size_t step;       // of the plan
    std::size_t number;     // on the status board
    std::string tuning_key = {};
  };

  void load_kernels(KernelBuilder& builder, SharedKernels& shared, const GpuLimits& limits);
  std::vector<CudaPreference> ways_to_run(const LoweredKernel& kernel, KernelBuilder& builder, const GpuLimits& limits,
                                          Launchable& launchable) const;
  void prepare_algebra(const std::shared_ptr<Solver>& solver, KernelBuilder& builder);
  std::vector<CheckedCall> checked_calls() const;
  void place_memory();
  std::int64_t algebra_workspace() const;
  void find_outside();

  /// A tensor from its element `first` on.
  DevicePointer place_of(const std::string& tensor, std::int64_t first = 0) const;
  /// Where a launch leaves the sums that chunks may share: in a scan, at the step's slice.
  DevicePointer written_at(const LoweredKernel& kernel, const std::string& tensor, const ScanPosition& at) const;
  DevicePointer partials_of(const Launchable& kernel, const std::string& tensor) const;
  std::uint64_t value_of(const Launchable& kernel, const Way& way, const CudaParameter& parameter,
                         const ScanPosition& at) const;

  void enqueue();
  void enqueue(const LoweredScan& scan, const ScanPosition& at);
  void enqueue(const LoweredKernel& lowered, const ScanPosition& at);
  void enqueue(const MatrixProduct& product, const ScanPosition& at) const;
  void enqueue(const AlgebraCall& call, const ScanPosition& at) const;
  void enqueue(const OrderedSumCall& call, const ScanPosition& at) const;
  void enqueue(const LoweredSlices& slices, const ScanPosition& at);
  void clear_sums(const Slices& slices);
  void launch(const Launchable& kernel, const Way& way, const ScanPosition& at) const;
  void combine(const Launchable& kernel, const Way& way, const ScanPosition& at) const;
  void clear_gaps(const Launchable& kernel, const Way& way) const;
  void tune(Launchable& kernel, const ScanPosition& at);

  std::shared_ptr<Gpu> gpu_;
  KernelCache& cache_;
  Multiply multiply_;
  std::shared_ptr<const Plan> plan_;
  DimValues dims_;                                           // with those of the slice that is enqueued
  const std::map<std::string, SliceView>* views_ = nullptr;  // of the slices that are enqueued
  std::vector<bool> constant_;                               // of every step of the plan
  std::map<const LoweredKernel*, Launchable> kernels_;       // of every step of the plan
  std::vector<const AlgebraCall*> algebra_calls_;            // of the plan, in the order of their checks
  std::unique_ptr<GpuAlgebra> algebra_;                      // null without calls
  MemoryPlan memory_;
  DeviceMemory arena_;           // what the plan places, and behind it the workspace of the launch under way
  DevicePointer workspace_ = 0;  // of kernels and of library calls
  std::map<std::string, DevicePointer> outside_;  // inputs and outputs, during a run
  bool random_is_drawn_ = false;
  CudaBuffer random_;  // CudaRandomState
  std::shared_ptr<StatusBoard> board_;
  GraphCache graphs_;
  bool has_run_ = false;
};

}  // namespace moxie::cuda
