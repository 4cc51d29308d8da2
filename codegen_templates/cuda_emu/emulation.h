// What the text of a CUDA kernel is compiled against when it is built as C++ and runs on the CPU: the names that CUDA
// defines, over checked pointers and over the machine, which runs threads, barriers and warps.
#pragma once
#define MOXIE_CUDA_EMULATION 1

#include "machine.h"
#include "math.h"
#include "pointer.h"
#include "vectors.h"
#include "warp.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __constant__ static const

using size_t = decltype(sizeof 0);
using uint3 = moxie_emulation::Triple;
using dim3 = moxie_emulation::Triple;

#define threadIdx (moxie_emulation::machine->thread_index)
#define blockIdx (moxie_emulation::machine->block_index)
#define blockDim (moxie_emulation::machine->block_dim)
#define gridDim (moxie_emulation::machine->grid_dim)
constexpr int warpSize = 32;

namespace moxie_emulation {

template <class T>
struct Argument {
  static constexpr u32 bytes = sizeof(T);
  static T take(const void* value, u32) {
    T argument;
    __builtin_memcpy(&argument, value, sizeof(T));
    return argument;
  }
};

template <class T>
struct Argument<Pointer<T>> {
  static constexpr u32 bytes = sizeof(u64);
  static Pointer<T> take(const void* value, u32 parameter) {
    return {machine->resolve(Argument<u64>::take(value, parameter), parameter), "memory without EXTENT", Space::global};
  }
};

/// A constructor, since only the elements of a braced list are evaluated in order.
struct Launch {
  template <class... A>
  Launch(void (*kernel)(A...), A... arguments) {
    auto thread = [&] { kernel(arguments...); };
    machine->run([](void* closure) { (*static_cast<decltype(thread)*>(closure))(); }, &thread);
  }
};

template <auto kernel>
struct Entry;

template <class... A, void (*kernel)(A...)>
struct Entry<kernel> {
  static constexpr u32 bytes[] = {Argument<A>::bytes..., 0};
  static void launch(void** parameters) {
    u32 parameter = 0;
    const auto next = [&]<class T>(T (*take)(const void*, u32)) {
      const u32 k = parameter++;
      return take(parameters[k], k);
    };
    Launch{kernel, next(&Argument<A>::take)...};
  }
  static constexpr EntryPoint point = {&launch, bytes, sizeof...(A)};
};

extern "C" __attribute__((visibility("default"))) void moxie_attach(Machine* host) { machine = host; }

}  // namespace moxie_emulation

/// One line for each kernel of a module, behind its text.
#define MOXIE_ENTRY(name)                                                                                  \
  extern "C" __attribute__((visibility("default"))) const moxie_emulation::EntryPoint moxie_entry_##name = \
      moxie_emulation::Entry<&name>::point;
