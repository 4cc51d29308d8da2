#pragma once
// Cost: how long a kernel takes on a machine, estimated from the loops that will be compiled.
#include <array>
#include <string>
#include <vector>

#include "compiler/fuse/fuse.h"
#include "compiler/loop/lower.h"
#include "compiler/program/program.h"
#include "compiler/schedule/machine.h"
#include "compiler/schedule/traffic.h"

namespace moxie {

/// The estimate for one launch, and what it is made of. `seconds` is the largest of `compute`, `latency` and `levels`,
/// divided among the cores, plus `combine` and `launch`.
///
/// `index_ports` is the part of `ports` for what depends on indices alone, such as masks. `spare_ports` is what other
/// loops may save: that and, in a kernel with lanes, most of what is computed once for all lanes, since a vector would
/// compute as many.
struct Cost {
  double seconds = 0;

  // Seconds of one core.
  double compute = 0;          // of the busiest port
  double latency = 0;          // of the longest chain of operations that wait for each other
  std::vector<double> levels;  // to move `traffic`, by level of the machine
  double combine = 0;          // to add the partial results of the chunks
  double launch = 0;           // of the kernel and of its pieces

  std::int64_t pieces = 1;  // that can run at the same time
  int lanes = 1;
  std::array<double, kOperationClasses> operations{};  // by OperationClass
  std::array<double, kPorts> ports{};                  // cycles, by Port
  std::array<double, kPorts> index_ports{};            // of these, to compute what depends on indices alone
  std::array<double, kPorts> spare_ports{};            // of these, what other loops may save
  std::vector<Traffic> traffic;                        // between each level of the machine and the next one outwards
  std::size_t longest_run = 0;                         // neighbours in memory that each lane loads or stores at once
  double live_registers = 0;                           // vector registers that the fullest innermost loop needs

  double count(OperationClass operation) const { return operations.at(static_cast<std::size_t>(operation)); }
  bool operator==(const Cost&) const = default;
};

/// The cost of one launch for these extents, with buffers in the innermost cache level in which they all fit. A step of
/// a scan is one launch. Throws ShapeError where a dim has no value.
Cost estimate(const LoweredKernel& kernel, const DimValues& dims, const Machine& machine);

/// The cost of a product by a library on one core, to be compared with that of a kernel that computes the same: its
/// arithmetic, all of the depth where a row sums a part of it, and a call for each element of the batch.
Cost estimate(const MatrixProduct& product, const DimValues& dims, const Machine& machine);

/// The seconds of one launch on this number of cores, of which one need not be woken.
double seconds_on(int cores, const Cost& cost, const Machine& machine);

/// "12.3 us: compute 10.1 us (arithmetic), L1 3.2 us, latency 8 us, launch 1 us; 16 lanes, 64 pieces"
std::string describe(const Cost& cost, const Machine& machine);

}  // namespace moxie
