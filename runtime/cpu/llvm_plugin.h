#pragma once
// The C interface between moxie and its LLVM plugin, a shared library that is loaded when a kernel must be compiled.
#include <stddef.h>

/// Kernels come as counted loops over vectors: there is nothing to vectorise or inline. Loops of a few iterations are
/// unrolled, so that what they read of points in space leaves the loop over pairs of points (a varifold norm takes .21
/// ms in the place of .59). Measured on a GPN layer this takes half the time of default<O2> or less, and gives code of
/// the same speed. (Without no-verify-fixpoint instcombine may end a compilation.) Level 1 of `opt` below.
#define MOXIE_LLVM_PIPELINE                                                      \
  "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg," \
  "loop(loop-unroll-full),early-cse<memssa>,loop-mssa(licm),"                    \
  "early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)"

/// What a plugin and the library that loads it must have in common: the version, the functions below (the number is
/// raised whenever one of them changes) and the pipeline, which the keys of cached kernels name.
#define MOXIE_LLVM_ABI "moxie " MOXIE_VERSION ", plugin interface 2, " MOXIE_LLVM_PIPELINE

extern "C" {

enum moxie_llvm_output { moxie_llvm_object = 0, moxie_llvm_assembly = 1, moxie_llvm_optimised_ir = 2 };

/// Compiles the text of one module. Returns 0 and, in `data` and `size`, the output; or another number and, in
/// `message`, the reason. Either is released by moxie_llvm_free(). `opt` is 0 (no optimisation) to 3.
using moxie_llvm_compile_fn = int(const char* ir, const char* triple, const char* cpu, const char* features, int opt,
                                  int want, void** data, size_t* size, char** message);
using moxie_llvm_free_fn = void(void* data);
/// "LLVM 19.1.4", never released.
using moxie_llvm_version_fn = const char*();
/// The file of the LLVM library that the plugin uses, never released; empty if the loader does not know it.
using moxie_llvm_library_fn = const char*();
/// MOXIE_LLVM_ABI of the plugin, never released.
using moxie_llvm_abi_fn = const char*();
}
