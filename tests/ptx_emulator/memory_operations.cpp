// Loads, stores and atomic operations.
#include <algorithm>
#include <cstring>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class T>
std::byte* locate(Warp& warp, const Instruction& instruction, unsigned lane, Access access) {
  const std::uint64_t address =
      warp.lanes<std::uint64_t>(instruction.slots[0])[lane] + static_cast<std::uint64_t>(instruction.offset);
  return warp.locate(instruction.space, address, sizeof(T) * instruction.count, lane, access);
}

/// Signs are extended into a register R that is wider than T.
template <class T, class R>
void load(Warp& warp, const Instruction& instruction, Mask mask) {
  for_each_lane(mask, [&](unsigned lane) {
    const std::byte* memory = locate<T>(warp, instruction, lane, Access::read);
    for (unsigned k = 0; k < instruction.count; ++k) {
      T value;
      std::memcpy(&value, memory + k * sizeof(T), sizeof(T));
      warp.lanes<R>(instruction.slots[k + 1])[lane] = static_cast<R>(value);  // NOLINT(bugprone-signed-char-misuse)
    }
  });
}

template <class T, class R>
void store(Warp& warp, const Instruction& instruction, Mask mask) {
  for_each_lane(mask, [&](unsigned lane) {
    std::byte* memory = locate<T>(warp, instruction, lane, Access::write);
    for (unsigned k = 0; k < instruction.count; ++k) {
      const T value = static_cast<T>(warp.lanes<R>(instruction.slots[k + 1])[lane]);
      std::memcpy(memory + k * sizeof(T), &value, sizeof(T));
    }
  });
}

template <template <class, class> class Make, class T>
Step with_register(unsigned bytes) {
  if (bytes < sizeof(T)) return nullptr;
  switch (bytes) {
    case 2:
      return Make<T, std::uint16_t>::step;
    case 4:
      return Make<T, std::uint32_t>::step;
    default:
      return Make<T, std::uint64_t>::step;
  }
}

template <class T, class R>
struct Load {
  static constexpr Step step = load<T, R>;
};
template <class T, class R>
struct Store {
  static constexpr Step step = store<T, R>;
};

template <template <class, class> class Make>
Step choose(Type type, unsigned register_bytes) {
  const bool is_signed = type.kind == 's';
  switch (type.bytes) {
    case 1:
      return is_signed ? with_register<Make, std::int8_t>(register_bytes)
                       : with_register<Make, std::uint8_t>(register_bytes);
    case 2:
      return is_signed ? with_register<Make, std::int16_t>(register_bytes)
                       : with_register<Make, std::uint16_t>(register_bytes);
    case 4:
      return is_signed ? with_register<Make, std::int32_t>(register_bytes)
                       : with_register<Make, std::uint32_t>(register_bytes);
    default:
      return with_register<Make, std::uint64_t>(register_bytes);
  }
}

/// `update` gives the new value, of the old one and the operands. Lanes take turns, the lowest first.
template <class T, auto update>
void atomic(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto& slots = instruction.slots;
  for_each_lane(mask, [&](unsigned lane) {
    const std::uint64_t address =
        warp.lanes<std::uint64_t>(slots[1])[lane] + static_cast<std::uint64_t>(instruction.offset);
    std::byte* memory = warp.locate(instruction.space, address, sizeof(T), lane, Access::atomic);
    T old;
    std::memcpy(&old, memory, sizeof old);
    const T value = update(old, warp.lanes<T>(slots[2])[lane], warp.lanes<T>(slots[3])[lane]);
    std::memcpy(memory, &value, sizeof value);
    warp.lanes<T>(slots[0])[lane] = old;
  });
}

template <class T>
Step sum_or_extreme(std::string_view operation) {
  if (operation == "add") return atomic<T, [](T old, T a, T) { return static_cast<T>(old + a); }>;
  if (operation == "min") return atomic<T, [](T old, T a, T) { return std::min(old, a); }>;
  if (operation == "max") return atomic<T, [](T old, T a, T) { return std::max(old, a); }>;
  return nullptr;
}

template <class T>
Step on_bits(std::string_view operation) {
  if (operation == "exch") return atomic<T, [](T, T a, T) { return a; }>;
  if (operation == "cas") return atomic<T, [](T old, T expected, T a) { return old == expected ? a : old; }>;
  if (operation == "and") return atomic<T, [](T old, T a, T) { return old & a; }>;
  if (operation == "or") return atomic<T, [](T old, T a, T) { return old | a; }>;
  if (operation == "xor") return atomic<T, [](T old, T a, T) { return old ^ a; }>;
  if (operation == "inc") return atomic<T, [](T old, T a, T) { return old < a ? old + 1 : T{0}; }>;
  if (operation == "dec") return atomic<T, [](T old, T a, T) { return old == 0 || a < old ? a : old - 1; }>;
  return nullptr;
}

}  // namespace

Step load_step(Type type, unsigned register_bytes) { return choose<Load>(type, register_bytes); }
Step store_step(Type type, unsigned register_bytes) { return choose<Store>(type, register_bytes); }

Step atomic_step(std::string_view operation, Type type) {
  const bool is_long = type.bytes == 8;
  if (type.kind == 'f') {
    if (operation != "add") return nullptr;
    return is_long ? sum_or_extreme<double>(operation) : sum_or_extreme<float>(operation);
  }
  if (type.bytes < 4) return nullptr;
  if (const Step step = is_long ? on_bits<std::uint64_t>(operation) : on_bits<std::uint32_t>(operation)) return step;
  if (type.kind == 's')
    return is_long ? sum_or_extreme<std::int64_t>(operation) : sum_or_extreme<std::int32_t>(operation);
  return is_long ? sum_or_extreme<std::uint64_t>(operation) : sum_or_extreme<std::uint32_t>(operation);
}

}  // namespace moxie::ptx
