#pragma once
// Runs of what is dumped, on this processor and with made-up inputs: to measure its kernels, or to take one of them
// out.
#include <filesystem>

#include "runtime/dump/dump.h"

namespace moxie {

/// Adds to the dump what each kernel takes at least, on all processors.
void measure_kernels(const Compilation& compilation, Dump& dump);
/// Writes a folder that reruns the kernel alone. Throws UsageError for a name that is not in the dump.
void write_kernel_repro(const Compilation& compilation, const Dump& dump, const std::string& kernel,
                        const std::filesystem::path& folder);

}  // namespace moxie
