// What the text of a CUDA kernel is compiled against when it is built as C++ and runs on the CPU.
#pragma once
#define MOXIE_CUDA_EMULATION 1
