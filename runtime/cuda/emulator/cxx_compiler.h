#pragma once
// The compiler of the emulated device: the host's C++ compiler.
#include <span>
#include <string>

#include "runtime/kernel_cache.h"

namespace moxie::cuda::emulator {

/// The text of a module and its kernels as a module image. Throws CompileError with the compiler's messages,
/// DeviceError where there is none.
CacheEntry compile_module(const std::string& text, std::span<const std::string> entries);

/// Of all that decides what modules do, for cache keys. It does not name the C++ compiler: any of them makes modules
/// that compute the same, and a warm program needs none.
std::string module_version();

}  // namespace moxie::cuda::emulator
