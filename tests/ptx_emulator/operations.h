#pragma once
// The table of instructions whose operands are registers and numbers, by their whole opcode.
#include <string>
#include <string_view>
#include <unordered_map>

#include "tests/ptx_emulator/lanes.h"

namespace moxie::ptx {

class OperationTable {
 public:
  /// An instruction that computes `function`, a lambda without captures, in each lane.
  template <auto function>
  void add(const std::string& opcode) {
    rows_.emplace(opcode, elementwise<function>(+function));
  }
  template <auto function>
  void add_slow(const std::string& opcode) {
    rows_.emplace(opcode, sparse<function>(+function));
  }
  void add(const std::string& opcode, Operation operation) { rows_.emplace(opcode, std::move(operation)); }
  /// Null where there is none.
  const Operation* find(const std::string& opcode) const {
    const auto row = rows_.find(opcode);
    return row == rows_.end() ? nullptr : &row->second;
  }

 private:
  std::unordered_map<std::string, Operation> rows_;
};

void add_bit_operations(OperationTable& table);
void add_integer_operations(OperationTable& table);
void add_carry_operations(OperationTable& table);
void add_float_operations(OperationTable& table);
void add_rounded_operations(OperationTable& table);
void add_special_functions(OperationTable& table);
void add_comparisons(OperationTable& table);

const OperationTable& operations();

// ---- Instructions that the decoder takes apart ----

/// A conversion "cvt". Its registers may be wider than the types.
enum class Rounding : std::uint8_t { nearest_even, zero, down, up };
struct Conversion {
  Type to, from;
  unsigned to_bytes = 0, from_bytes = 0;  // of the registers
  Rounding rounding = Rounding::nearest_even;
  bool to_integral = false;  // rounds to an integral value: rni, rzi, rmi, rpi
  bool saturates = false, flushes = false;
};
/// Null where there is no such conversion. The instruction's `detail` is to be `detail_of(conversion)`.
Step conversion_step(const Conversion& conversion);
std::uint32_t detail_of(const Conversion& conversion);

/// A register as several narrower ones, the lowest first, and back. Operand 0 is the wide one.
Step unpack_step(unsigned whole_bytes, unsigned part_bytes);
Step pack_step(unsigned whole_bytes, unsigned part_bytes);

/// Loads of `type` into registers of `register_bytes`, and stores from them. Operand 0 is the address, the others the
/// registers.
Step load_step(Type type, unsigned register_bytes);
Step store_step(Type type, unsigned register_bytes);
/// Operands: result, address, operand, and the new value for "cas". Null where there is none.
Step atomic_step(std::string_view operation, Type type);

Step branch_step();
Step exit_step();
Step block_barrier_step();
Step warp_barrier_step();
Step fence_step();
Step trap_step();
/// "up", "down", "bfly" or "idx". Operands: result, predicate, value, lane, bounds, member mask. Null for others.
Step shuffle_step(std::string_view mode);
/// "all", "any", "uni" or "ballot". Operands: result, predicate, member mask.
Step vote_step(std::string_view mode);
/// The active lanes.
Step active_mask_step();

}  // namespace moxie::ptx
