#pragma once
// CompiledFunction: a Program as a function on the caller's memory.
//
// A Session owns its tensors and keeps state from run to run. Here every call names the memory of all inputs and
// outputs, and kernels read and write that memory where the device works in the memory of the host.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace moxie {

/// Shapes of tensors, in the order of a Program's inputs or outputs.
using TensorShapes = std::vector<std::vector<std::int64_t>>;

/// A CompiledFunction for one set of extents, compiled. Several threads may call it; they take turns.
class BoundFunction {
 public:
  BoundFunction(std::shared_ptr<Device> device, std::shared_ptr<const Plan> plan, DimValues dims);
  ~BoundFunction();
  BoundFunction(const BoundFunction&) = delete;
  BoundFunction& operator=(const BoundFunction&) = delete;

  const DimValues& dims() const { return dims_; }
  const TensorShapes& output_shapes() const { return output_shapes_; }
  /// Runs once. `inputs` and `outputs` are the addresses of row-major tensors without padding, aligned as their element
  /// type, in the order of the Program; outputs overlap nothing else. Random numbers depend on `seed` and `step`.
  /// Throws DataError for a value outside an input's declared domain, DomainError where the formula leaves its own, and
  /// DeviceError where the device fails; the contents of outputs are then unspecified.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::uint64_t seed, std::uint64_t step);

 private:
  struct State;
  DimValues dims_;
  TensorShapes output_shapes_;
  std::unique_ptr<State> state_;
};

/// Thread-safe. Keeps what was compiled for the last sets of extents, and forgets the least recently used beyond that.
class CompiledFunction {
 public:
  static constexpr std::size_t kKeptExtents = 32;

  /// `dims` gives values to static dims that no input shows. Throws what verify() throws, and TypeError without a
  /// device.
  CompiledFunction(Program program, DimValues dims, std::shared_ptr<Device> device, std::size_t kept = kKeptExtents);
  ~CompiledFunction();
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;

  const Program& program() const;
  /// Names of the outputs, in the order of the Program.
  const std::vector<std::string>& outputs() const;
  /// Compiles for inputs of these shapes unless that has been done. Throws ShapeError where shapes contradict each
  /// other or the Program, and CompileError.
  std::shared_ptr<BoundFunction> bind(const TensorShapes& inputs);
  /// Shapes of the outputs for inputs of these shapes; compiles nothing. Throws ShapeError as bind() does.
  TensorShapes output_shapes(const TensorShapes& inputs) const;
  /// Sets of extents that are kept at the moment.
  std::size_t kept() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moxie
