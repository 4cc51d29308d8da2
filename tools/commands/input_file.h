#pragma once
// The inputs of a Program from a file.
#include <map>
#include <string>

#include "compiler/program/program.h"
#include "runtime/host_tensor.h"

namespace moxie {

using InputTensors = std::map<std::string, HostTensor>;

/// The tensors of a file (tools/commands/tensor_files.h): every input of the program, and possibly cotangents of its
/// definitions and tangents of its inputs. Throws DataError for a tensor that is missing, unknown, not finite or
/// outside its declared domain.
InputTensors read_inputs(const std::string& file, const Program& program);

/// The values of all dims: those that the shapes show, and `given`. Throws ShapeError where they contradict each other,
/// and DataError for a static dim that is 0.
DimValues dims_of(const Program& program, const InputTensors& tensors, const DimValues& given);

}  // namespace moxie
