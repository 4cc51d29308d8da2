#pragma once
// What every generated function begins with: checks of what its caller passes, and messages for what is wrong.
#include <string>
#include <vector>

#include "runtime/aot/dim_math.h"
#include "runtime/aot/function_writer.h"
#include "runtime/aot/interface.h"

namespace moxie::aot {

/// As in codegen_templates/aot/abi.h.
enum Status : int {
  ok = 0,
  wrong_argument,
  wrong_shape,
  small_workspace,
  outside_domain,
  unsupported_machine,
  driver_error
};

/// What a function was passed.
struct Call {
  Pointer arguments;  // the struct
  Pointer message;    // never null: memory of the stack where the caller wants none
};

/// The parameter %message, or memory of the stack; empty.
Pointer begin_message(FunctionWriter& writer);
/// The parameters %arguments and %message. Leaves where there are no arguments.
Call begin_call(FunctionWriter& writer, const Interface& interface);

/// Writes a message: `format` as for printf, with `values` of 64 bits or of floating point.
void complain(FunctionWriter& writer, const Pointer& message, const std::string& format,
              const std::vector<Val>& values = {});
/// Text that stands in such a format for itself.
std::string escaped(std::string text);

/// The dims of the call. Leaves where one is negative, or less than what the program reads, or beyond what sizes can be
/// computed with.
DimMath::Values checked_dims(FunctionWriter& writer, const Interface& interface, const Call& call);
/// Leaves where a tensor is missing or has another number of elements than its shape. Gives the tensors' addresses.
std::vector<Pointer> checked_tensors(FunctionWriter& writer, const Interface& interface, const Call& call,
                                     DimMath& math);
/// Leaves where the workspace, the parameters %workspace and %workspace_bytes, is smaller than this.
void check_workspace(FunctionWriter& writer, const Interface& interface, const Call& call, const Val& wanted);

}  // namespace moxie::aot
