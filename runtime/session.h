#pragma once
// Session: a Plan with its buffers, parameters and random state; what a user runs.
#include <map>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "runtime/plan_cache.h"

namespace moxie {

/// Belongs to one thread at a time. Sessions of one device may run in several threads: kernels then take turns where
/// the device has threads of its own, and no value depends on it.
class Session {
 public:
  /// Static dims take their values from `dims` (or from the program); dynamic ones may change from run to run. What was
  /// prepared for the last sixteen sets of extents is kept, each with its workspace.
  Session(const Program& program, const DimValues& dims, std::shared_ptr<Device> device);
  ~Session();
  Session(Session&&) noexcept;

  /// Gives an input its values, converted to its dtype. The shape may differ in dynamic dims from the last one. Throws
  /// DataError for a value outside the input's declared domain, which costs one pass over the values, and TypeError for
  /// an unknown name; then the input keeps its values. MOXIE_CHECK_INPUTS=off, read by the constructor, skips the pass.
  void set(const std::string& input, const HostTensor& tensor);
  /// Gives an input a shape, and zeros for values until write() has given it others.
  void resize(const std::string& input, std::vector<std::int64_t> shape);
  /// After each run the output's values become the input's, without a copy. Shapes and dtypes must agree. The declared
  /// domain of the input is not checked there; MOXIE_CHECK=negvar does so in every run.
  void feed_back(const std::string& output, const std::string& input);
  /// Gives the inputs that were fed the values that they had before the last run. Nothing is left to be taken back
  /// after a run that threw, which fed nothing, and after new values for one of these inputs.
  void take_back();
  /// Runs once. Throws ShapeError while inputs are missing or shapes disagree, DataError where write() left a value
  /// outside a declared domain, and DeviceError where a formula left its own: then nothing was fed back, and all inputs
  /// have the values that they had before. A device that works ahead of the host throws a DeviceError from get(),
  /// read(), wait(), or the next run(), and the run that failed is taken back.
  void run();
  /// Until the runs so far are done. Throws as get() does.
  void wait();
  HostTensor get(const std::string& tensor) const;
  /// Begins to fetch what read() is going to be asked for, so that several tensors are waited for once.
  void prefetch(const std::string& tensor);
  /// The values of an input or output, valid until the next run; throws TypeError for an unknown name.
  std::span<const std::byte> read(const std::string& tensor) const;
  enum class Domain : std::uint8_t { check, checked };
  /// The memory of an input, to fill with all of its values before the next run, which checks that they lie in the
  /// declared domain unless the caller says that it has. Throws TypeError for an unknown name.
  std::span<std::byte> write(const std::string& input, Domain domain = Domain::check);

  /// The key and the counter of all random numbers; the step grows by one with each run.
  void set_random_state(std::uint64_t seed, std::uint64_t step);
  std::uint64_t step() const;
  /// The Program with the values of its static dims.
  const Program& program() const;
  /// The plan that ran last; before the first run, one that no extents are known for, which is made when it is asked
  /// for. Valid as long as the session.
  const Plan& plan() const;
  const PlanningCounts& planning() const;
  /// Bytes that the last run needed besides inputs, outputs and parameters.
  std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moxie
