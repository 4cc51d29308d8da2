#pragma once
// The mode of a processor in which results below the smallest normal number become zeros, as LLVM text.
#include <functional>
#include <string_view>

#include "runtime/aot/function_writer.h"

namespace moxie::aot {

/// Writes `body` so that it runs in that mode, as kernels do on the device `cpu` (runtime/cpu/flush_to_zero.h), and
/// gives the caller its own mode back. On processors other than x86-64 and aarch64 it writes `body` alone.
void with_flush_to_zero(FunctionWriter& writer, std::string_view triple, const std::function<void()>& body);

}  // namespace moxie::aot
