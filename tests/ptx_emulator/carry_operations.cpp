// Arithmetic of integers that are wider than registers: instructions that take and leave a carry.
#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

enum Carry : unsigned { none = 0, takes = 1, leaves = 2, both = takes | leaves };

__extension__ using Wide = unsigned __int128;

/// What is added to the last operand, before the carry: `bits` of it.
enum class Term : std::uint8_t { first, minus_second, low_product, high_product };

template <class T, Term term>
T term_of(T a, T b) {
  if constexpr (term == Term::low_product) return static_cast<T>(static_cast<Wide>(a) * b);
  if constexpr (term == Term::high_product) return static_cast<T>(static_cast<Wide>(a) * b >> 8 * sizeof(T));
  return a;
}

/// a + b, a - b, or a * b + c, where the carry of a difference is its borrow.
template <class T, Term term, unsigned carry>
void step(Warp& warp, const Instruction& instruction, Mask mask) {
  auto* flags = warp.lanes<std::uint8_t>(warp.carry());
  for_each_lane(mask, [&](unsigned lane) {
    const auto operand = [&](unsigned k) { return warp.lanes<T>(instruction.slots[k])[lane]; };
    const T a = term_of<T, term>(operand(1), operand(2));
    const T b = operand(term == Term::first || term == Term::minus_second ? 2 : 3);
    const Wide flag = (carry & takes) != 0 ? flags[lane] : 0;
    const Wide sum = term == Term::minus_second ? static_cast<Wide>(a) - b - flag : static_cast<Wide>(a) + b + flag;
    warp.lanes<T>(instruction.slots[0])[lane] = static_cast<T>(sum);
    if ((carry & leaves) != 0) flags[lane] = static_cast<std::uint8_t>(sum >> 8 * sizeof(T) & 1);
  });
}

template <class T, Term term>
void add_carries(OperationTable& table, const std::string& name, const std::string& part, const std::string& type) {
  const bool is_product = term == Term::low_product || term == Term::high_product;
  const std::vector<Type> types(is_product ? 4 : 3, type_of<T>());
  table.add(name + part + ".cc." + type, {step<T, term, leaves>, types});
  table.add(name + "c" + part + "." + type, {step<T, term, takes>, types});
  table.add(name + "c" + part + ".cc." + type, {step<T, term, both>, types});
}

template <class T>
void add_type(OperationTable& table, const std::string& type) {
  add_carries<T, Term::first>(table, "add", "", type);
  add_carries<T, Term::minus_second>(table, "sub", "", type);
  add_carries<T, Term::low_product>(table, "mad", ".lo", type);
}

}  // namespace

/// The high half of a signed product is another one: no compiler has asked for it so far.
void add_carry_operations(OperationTable& table) {
  for (const char* kind : {"u", "s"}) {
    add_type<std::uint32_t>(table, kind + std::string("32"));
    add_type<std::uint64_t>(table, kind + std::string("64"));
  }
  add_carries<std::uint32_t, Term::high_product>(table, "mad", ".hi", "u32");
  add_carries<std::uint64_t, Term::high_product>(table, "mad", ".hi", "u64");
}

}  // namespace moxie::ptx
