#include "runtime/dump/stages.h"

#include <array>

namespace moxie {
namespace {

constexpr std::array kStages = {
    Stage{"ir", "the Program as written"},
    Stage{"diff", "the Program that is compiled: gradients added, static dims put in"},
    Stage{"rewrite", "the Program after every pass that changed it"},
    Stage{"fuse", "kernels and library calls"},
    Stage{"schedule", "how kernels are shared out, and why"},
    Stage{"loop", "every kernel as explicit loops"},
    Stage{"cuda", "every kernel as CUDA C++"},
    Stage{"ptx", "every kernel as PTX, by NVRTC"},
    Stage{"sass", "every kernel as machine code of the GPU, by nvdisasm"},
    Stage{"llvm", "every kernel as LLVM IR"},
    Stage{"llvm-opt", "every kernel as LLVM IR, optimised"},
    Stage{"asm", "every kernel as machine code for this processor"},
};

}  // namespace

std::span<const Stage> dump_stages() { return kStages; }

}  // namespace moxie
