#pragma once
// The C interface between moxie and its LLVM plugin, a shared library that is loaded when a kernel must be compiled.
#include <stddef.h>

extern "C" {

enum moxie_llvm_output { moxie_llvm_object = 0, moxie_llvm_assembly = 1, moxie_llvm_optimised_ir = 2 };

/// Compiles the text of one module. Returns 0 and, in `data` and `size`, the output; or another number and, in
/// `message`, the reason. Either is released by moxie_llvm_free(). `opt` is 0 (no optimisation) to 3.
typedef int moxie_llvm_compile_fn(const char* ir, const char* triple, const char* cpu, const char* features, int opt,
                                  int want, void** data, size_t* size, char** message);
typedef void moxie_llvm_free_fn(void* data);
/// "LLVM 19.1.4", never released.
typedef const char* moxie_llvm_version_fn();
}
