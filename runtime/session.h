#pragma once
// Session: a Plan with its buffers, parameters and random state; what a user runs.
#include <map>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/host_tensor.h"

namespace moxie {

class Session {
 public:
  /// Static dims take their values from `dims` (or from the program); dynamic ones may change from run to run.
  Session(const Program& program, const DimValues& dims, std::shared_ptr<Device> device);
  ~Session();
  Session(Session&&) noexcept;

  /// Gives an input its values, converted to its dtype. The shape may differ in dynamic dims from the last one. Throws
  /// TypeError for an unknown name.
  void set(const std::string& input, const HostTensor& tensor);
  /// Gives an input a shape, and zeros for values until write() has given it others.
  void resize(const std::string& input, std::vector<std::int64_t> shape);
  /// After each run the output's values become the input's, without a copy. Shapes and dtypes must agree.
  void feed_back(const std::string& output, const std::string& input);
  /// Gives the inputs that were fed the values that they had before the last run. Nothing is left to be taken back
  /// after a run that threw, which fed nothing, and after new values for one of these inputs.
  void take_back();
  /// Runs once. Throws ShapeError while inputs are missing or shapes disagree, and DeviceError where a formula left its
  /// domain: then nothing was fed back, and all inputs
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
  /// The memory of an input, to fill with all of its values before the next run; throws TypeError for an unknown name.
  std::span<std::byte> write(const std::string& input);

  /// The key and the counter of all random numbers; the step grows by one with each run.
  void set_random_state(std::uint64_t seed, std::uint64_t step);
  std::uint64_t step() const;
  const Plan& plan() const;
  /// Bytes held besides inputs, outputs and parameters, after the first run.
  std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moxie
