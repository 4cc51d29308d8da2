#pragma once
#include "compiler/loop/nest_builder.h"

namespace moxie {

/// The factors of a matrix with at least as many rows as columns, in scratch; Q if it is wanted.
struct QrArrays {
  ArrayId q, r;
};
QrArrays lower_qr(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                  const std::vector<LoopIndex>& batch, bool wants_q);

}  // namespace moxie
