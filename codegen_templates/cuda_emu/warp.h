// Barriers, warp operations and atomics.
#pragma once
#include "pointer.h"

inline void __syncthreads(int line = __builtin_LINE()) { moxie_emulation::machine->barrier(line); }
inline void __threadfence() { moxie_emulation::machine->fence(); }
inline void __threadfence_block() {}

namespace moxie_emulation {

template <class T>
u64 to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(u64), "a shuffle moves at most 8 bytes");
  u64 bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(u64 bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T shuffle(WarpKind kind, u32 mask, int line, T value, u32 argument, u32 width) {
  return from_bits<T>(machine->warp({kind, mask, line, to_bits(value), argument, width}));
}

inline u32 vote(WarpKind kind, u32 mask, int line, bool predicate) {
  return u32(machine->warp({kind, mask, line, predicate}));
}

}  // namespace moxie_emulation

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  moxie_emulation::vote(moxie_emulation::WarpKind::sync, mask, line, false);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate, int line = __builtin_LINE()) {
  return moxie_emulation::vote(moxie_emulation::WarpKind::ballot, mask, line, predicate);
}
inline int __any_sync(unsigned mask, bool predicate, int line = __builtin_LINE()) {
  return int(moxie_emulation::vote(moxie_emulation::WarpKind::any, mask, line, predicate));
}
inline int __all_sync(unsigned mask, bool predicate, int line = __builtin_LINE()) {
  return int(moxie_emulation::vote(moxie_emulation::WarpKind::all, mask, line, predicate));
}
inline unsigned __activemask() { return moxie_emulation::machine->active_lanes(); }

#define MOXIE_SHUFFLE(name, kind)                                                                                   \
  template <class T>                                                                                                \
  T name(unsigned mask, T value, unsigned argument, int width = 32, int line = __builtin_LINE()) {                  \
    return moxie_emulation::shuffle(moxie_emulation::WarpKind::kind, mask, line, value, argument, unsigned(width)); \
  }                                                                                                                 \
  template <class T>                                                                                                \
  T name(unsigned mask, const moxie_emulation::Reference<T>& value, unsigned argument, int width = 32,              \
         int line = __builtin_LINE()) {                                                                             \
    return name(mask, T(value), argument, width, line);                                                             \
  }
MOXIE_SHUFFLE(__shfl_sync, shuffle)
MOXIE_SHUFFLE(__shfl_up_sync, shuffle_up)
MOXIE_SHUFFLE(__shfl_down_sync, shuffle_down)
MOXIE_SHUFFLE(__shfl_xor_sync, shuffle_xor)

// ---- Atomics: one host thread runs all threads of a launch, so that plain operations are atomic. ----

namespace moxie_emulation {

template <class T>
struct Same {
  using Type = T;
};

}  // namespace moxie_emulation

#define MOXIE_ATOMIC(name, updated)                                                             \
  template <class T>                                                                            \
  T name(T* p, typename moxie_emulation::Same<T>::Type value) {                                 \
    const T old = *p;                                                                           \
    *p = updated;                                                                               \
    return old;                                                                                 \
  }                                                                                             \
  template <class T>                                                                            \
  T name(const moxie_emulation::Pointer<T>& p, typename moxie_emulation::Same<T>::Type value) { \
    return name(p.atomic(), value);                                                             \
  }
MOXIE_ATOMIC(atomicAdd, old + value)
MOXIE_ATOMIC(atomicSub, old - value)
MOXIE_ATOMIC(atomicExch, value)
MOXIE_ATOMIC(atomicMin, value < old ? value : old)
MOXIE_ATOMIC(atomicMax, old < value ? value : old)
MOXIE_ATOMIC(atomicAnd, old& value)
MOXIE_ATOMIC(atomicOr, old | value)

template <class T>
T atomicCAS(T* p, typename moxie_emulation::Same<T>::Type expected, typename moxie_emulation::Same<T>::Type desired) {
  const T old = *p;
  if (old == expected) *p = desired;
  return old;
}
template <class T>
T atomicCAS(const moxie_emulation::Pointer<T>& p, typename moxie_emulation::Same<T>::Type expected,
            typename moxie_emulation::Same<T>::Type desired) {
  return atomicCAS(p.atomic(), expected, desired);
}
