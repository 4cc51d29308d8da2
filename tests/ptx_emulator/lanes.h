#pragma once
// Loops over the lanes of a warp. Instructions that compute each lane's result from this lane's operands are functions
// of one lane; `elementwise` makes them instructions.
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tests/ptx_emulator/syntax.h"
#include "tests/ptx_emulator/warp.h"

namespace moxie::ptx {

template <class T>
constexpr Type type_of() {
  if (std::is_same_v<T, bool>) return {'p', 1};
  return {std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 's' : 'u', sizeof(T)};
}

/// Calls `function` for each lane of the mask.
template <class F>
void for_each_lane(Mask mask, const F& function) {
  for (; mask != 0; mask &= mask - 1) function(static_cast<unsigned>(std::countr_zero(mask)));
}

/// Writes the lanes of the mask, and leaves the others.
template <class T>
void write_lanes(T* to, const T* values, Mask mask) {
  if (mask == kAllLanes) {
    std::memcpy(to, values, kLanes * sizeof(T));
    return;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) to[lane] = (mask >> lane & 1) != 0 ? values[lane] : to[lane];
}

template <auto function, class D, class... A, std::size_t... k>
void apply(Warp& warp, const Instruction& instruction, Mask mask, D (*)(A...), std::index_sequence<k...>) {
  alignas(64) D results[kLanes];
  const auto compute = [&](const A*... operands) {
    for (unsigned lane = 0; lane < kLanes; ++lane) results[lane] = function(operands[lane]...);
  };
  compute(warp.lanes<A>(instruction.slots[k + 1])...);
  write_lanes(warp.lanes<D>(instruction.slots[0]), results, mask);
}

/// As `apply`, but only for lanes of the mask: for functions that take long.
template <auto function, class D, class... A, std::size_t... k>
void apply_sparsely(Warp& warp, const Instruction& instruction, Mask mask, D (*)(A...), std::index_sequence<k...>) {
  D* results = warp.lanes<D>(instruction.slots[0]);
  for_each_lane(mask,
                [&](unsigned lane) { results[lane] = function(warp.lanes<A>(instruction.slots[k + 1])[lane]...); });
}

/// What the decoder knows of an instruction: its step, and the types of its operands, the result first.
struct Operation {
  Step step = nullptr;
  std::vector<Type> types;
};

template <auto function, class D, class... A>
Operation elementwise(D (*)(A...)) {
  return {[](Warp& warp, const Instruction& instruction, Mask mask) {
            apply<function>(warp, instruction, mask, static_cast<D (*)(A...)>(nullptr),
                            std::index_sequence_for<A...>());
          },
          {type_of<D>(), type_of<A>()...}};
}

template <auto function, class D, class... A>
Operation sparse(D (*)(A...)) {
  return {[](Warp& warp, const Instruction& instruction, Mask mask) {
            apply_sparsely<function>(warp, instruction, mask, static_cast<D (*)(A...)>(nullptr),
                                     std::index_sequence_for<A...>());
          },
          {type_of<D>(), type_of<A>()...}};
}

}  // namespace moxie::ptx
