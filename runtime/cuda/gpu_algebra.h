#pragma once
// GpuAlgebra: linear algebra on large matrices by cuSOLVER and cuBLAS, enqueued on the stream of a Gpu.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "runtime/algebra_call.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/cuda/matrix_kernels.h"

namespace moxie::cuda {

/// Where a call finds its tensors, and what it works in.
struct AlgebraAddresses {
  DevicePointer matrix = 0, rhs = 0, out = 0;
  DevicePointer workspace = 0;  // workspace_bytes() of it
  DevicePointer status = 0;     // KernelStatus
  std::uint64_t check = 0;      // the number of the call's check in there
  std::int64_t scan_step = 0;
};

class GpuAlgebra {
 public:
  /// `solver` is available. Throws CompileError, DeviceError.
  GpuAlgebra(std::shared_ptr<Gpu> gpu, std::shared_ptr<Solver> solver, KernelBuilder& builder);

  /// Asks the library, once for each call of a plan. Throws DeviceError.
  std::size_t workspace_bytes(const AlgebraCall& call, const AlgebraShape& shape);
  /// The matrices of a batch are factored one after the other. Of one that cannot be factored the status has, as
  /// coordinates, the number in the batch, the pivot and the step of the scan.
  /// Throws DeviceError for what the libraries refuse.
  void enqueue(const AlgebraCall& call, const AlgebraShape& shape, const AlgebraAddresses& addresses);

 private:
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<Solver> solver_;
  MatrixKernels kernels_;
  std::map<const AlgebraCall*, int> work_elements_;  // that the library takes, of calls whose workspace was planned
};

}  // namespace moxie::cuda
