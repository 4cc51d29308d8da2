#pragma once
// TensorBinding: a tensor of a Session that lies in memory of the caller.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "runtime/buffer.h"
#include "runtime/device.h"
#include "runtime/tensor_view.h"

namespace moxie {

struct TensorBinding {
  TensorView view;
  bool is_output = false;
  bool in_place = false;    // kernels work in the memory itself; else values are copied in every run
  bool has_gaps = false;    // an output with elements that no kernel writes and that are zero
  bool is_pending = false;  // an output whose values of the last run are still to be copied
  bool is_checked = false;  // an input whose values must lie in a declared domain
};

/// The bindings of a Session, by tensor.
using TensorBindings = std::map<std::string, TensorBinding, std::less<>>;

/// Throws TypeError for an unknown name or another dtype than declared, ShapeError for another number of axes, and
/// UsageError for an output in memory that is read-only or in which elements overlap.
TensorBinding make_binding(const Program& program, const std::string& tensor, const TensorView& view);
/// Throws UsageError where an output shares memory with another tensor: kernels may write it before they read that.
void check_shared_memory(const TensorBindings& bindings);
/// Throws ShapeError unless an output's view has the extents that the inputs give it.
void check_extents(const std::string& output, const TensorView& view, const std::vector<std::int64_t>& extents);
/// The memory where kernels work in it, else memory of the device for a copy. Throws DeviceError for memory that the
/// device cannot use.
std::unique_ptr<Buffer> buffer_for(Device& device, TensorBinding& binding);

}  // namespace moxie
