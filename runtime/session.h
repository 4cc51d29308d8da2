#pragma once
// Session: a Plan with its buffers, parameters and random state; what a user runs.
#include <map>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "runtime/plan_cache.h"
#include "runtime/tensor_view.h"

namespace moxie {

/// Belongs to one thread at a time; it may move to another thread between two calls. Any number of Sessions of one
/// Device, or of several, may run in several threads at the same time: kernels take turns where the device has threads
/// or a stream of its own, and no value depends on it.
///
/// Tensors are in memory of the Session, to which set() copies and from which get() and read() do, or in memory of the
/// caller that bind() names, which runs use without a copy where it fits.
class Session {
 public:
  /// Static dims take their values from `dims` (or from the program); dynamic ones may change from run to run. What was
  /// prepared for the last sixteen sets of extents is kept, each with its workspace. Throws TypeError without a device.
  Session(const Program& program, const DimValues& dims, std::shared_ptr<Device> device);
  ~Session();
  Session(Session&&) noexcept;

  /// Gives an input its values, converted to its dtype. The shape may differ in dynamic dims from the last one. Throws
  /// DataError for a value outside the input's declared domain, which costs one pass over the values, and TypeError for
  /// an unknown name; then the input keeps its values. ProgramOptions::check_inputs and MOXIE_CHECK_INPUTS=off, read by
  /// the constructor, skip the pass.
  void set(const std::string& input, const HostTensor& tensor);
  /// The same from memory of the host in any layout, which is read before the call returns. No conversion: throws
  /// TypeError for another dtype than declared, and DeviceError for memory that is not the host's.
  void set(const std::string& input, const TensorView& view);
  /// The same from a span, vector or array of elements in row-major order, which must fill the shape (ShapeError).
  template <std::ranges::contiguous_range Range>
    requires TensorElement<RangeElement<Range>>
  void set(const std::string& input, Range&& elements, std::vector<std::int64_t> shape) {
    set(input, view_of(std::span(std::ranges::data(elements), std::ranges::size(elements)), std::move(shape)));
  }
  /// Lets runs read an input from memory of the caller, or write an output to it, until another bind(), unbind(), or
  /// for an input set(), resize() or write(). What an input's memory holds when run() is called is what the run uses.
  ///
  /// Nothing is copied where the elements lie row by row, in memory of the host and aligned as their dtype for a device
  /// that works there (cpu, interp), or in the GPU's own memory from an address that 16 divides. Everything else is
  /// copied in each run: inputs by run(), outputs by run() or, from a GPU to the host, by wait(), before which they are
  /// unspecified. Memory of a GPU is copied on the GPU, in the order of its stream; its elements must lie row by row.
  ///
  /// The memory must exist until the binding ends and, on a GPU, until wait() has returned after the last run that used
  /// it; a view with an owner keeps it for as long. While a run may be under way nothing else writes it, or reads an
  /// output. After a run that threw, outputs are unspecified. Declared domains are checked by every run, one pass, but
  /// for memory of a GPU.
  ///
  /// Throws TypeError for an unknown name or another dtype than declared, ShapeError for a wrong number of axes,
  /// UsageError for a null pointer, read-only or self-overlapping memory as an output, and tensors of feed_back(),
  /// which exchange their memory, and DeviceError for memory of another device, or of a GPU in a layout that its
  /// kernels cannot use. run() throws ShapeError where the extents do not fit the other tensors, UsageError where an
  /// output shares memory with another bound tensor, and DataError for values outside of a declared domain, before
  /// anything has run. What throws leaves an earlier binding as it was.
  void bind(const std::string& tensor, const TensorView& view);
  /// Ends a binding, if there is one: an output is in memory of the session again, an input must be set anew.
  void unbind(const std::string& tensor);
  /// An input or output where runs find it, without a copy: memory of the host, or of the GPU for other work in the
  /// order of the device's stream, such as another Session of the device that binds it. Read-only; valid until the
  /// tensor's shape, binding or memory changes: bind(), unbind(), set(), write() or resize(), or a run that feeds back.
  /// Throws TypeError for an unknown name.
  TensorView view(const std::string& tensor) const;
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
  /// Until the runs so far are done, and outputs that are bound to memory of the host are there. Throws as get() does.
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
  /// Where it runs. Lives as long as the session, and may live longer.
  const Device& device() const;
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
