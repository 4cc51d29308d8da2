#pragma once
// oneDNN's matrix product in single precision, where the library is installed: its kernels are written at run time for
// the vectors of the processor, and large products take 0.7 to 0.85 times what they take with OpenBLAS 0.3.21
// (AVX-512).
#include <string>

#include "runtime/cpu/blas.h"

namespace moxie::onednn {

/// Loads the library, so that a run does not have to. Whether there is one that can be used: it computes on the thread
/// that asks, and has kernels for vectors of this processor.
bool prepare();

/// Whether it multiplies matrices that lie like this faster than OpenBLAS. Its kernels for AVX2 may read operands where
/// they lie: along the depth, with strides of half a page, all elements share a few sets of the cache.
bool suits(int left, int lda, int right, int ldb);

/// C = alpha * A * B + beta * C of matrices that lie row by row, or column by column where transposed; transpositions
/// are those of CBLAS. On the calling thread, any number at a time. Only after prepare() said yes.
void gemm(int left, int right, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc);

/// "2.6.3"; empty if there is none.
std::string version();

}  // namespace moxie::onednn
