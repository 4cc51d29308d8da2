#include "runtime/dump/stages.h"

#include <algorithm>
#include <array>

namespace moxie {
namespace {

constexpr std::array kStages = {
    Stage{"ir", "the Program as written"},
    Stage{"diff", "the Program that is compiled: gradients added, static dims put in"},
    Stage{"rewrite", "the Program after every pass that changed it"},
    Stage{"fuse", "kernels and library calls"},
    Stage{"schedule", "the loops that kernels run as, how they are split, and why"},
    Stage{"loop", "every kernel as explicit loops"},
    Stage{"cuda", "every kernel as CUDA C++", Stage::Of::gpu},
    Stage{"ptx", "every kernel as PTX, by NVRTC", Stage::Of::gpu},
    Stage{"sass", "every kernel as machine code of the GPU, by nvdisasm", Stage::Of::gpu},
    Stage{"llvm", "every kernel as LLVM IR", Stage::Of::cpu},
    Stage{"llvm-opt", "every kernel as LLVM IR, optimised", Stage::Of::cpu},
    Stage{"asm", "every kernel as machine code for this processor", Stage::Of::cpu},
};

}  // namespace

std::span<const Stage> dump_stages() { return kStages; }

DumpedDevices devices_of(const std::vector<std::string>& stages) {
  const auto all_of = [&](Stage::Of device) {
    return !stages.empty() && std::ranges::all_of(stages, [&](const std::string& name) {
      const auto* stage = std::ranges::find(kStages, name, &Stage::name);
      return stage != kStages.end() && stage->of == device;
    });
  };
  return {!all_of(Stage::Of::gpu), !all_of(Stage::Of::cpu)};
}

}  // namespace moxie
