#pragma once
// The machine that runs kernels: decoded instructions, and the registers that they work on. A register holds the values
// of all lanes of a warp side by side, so that an instruction is a loop over arrays. Constants and special registers
// are registers that are filled before a block begins.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace moxie::ptx {

constexpr unsigned kLanes = 32;
/// One bit for each lane of a warp.
using Mask = std::uint32_t;
constexpr Mask kAllLanes = ~Mask{0};
/// Where a register begins, in bytes from the first register of a warp.
using Slot = std::uint32_t;
constexpr Slot kNoSlot = std::numeric_limits<Slot>::max();

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

enum class Space : std::uint8_t { generic, global, shared, local, parameter };

/// Generic addresses of shared and local memory lie in windows; all others are addresses of the host.
constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 60;
constexpr std::uint64_t kLocalWindow = std::uint64_t{2} << 60;
constexpr std::uint64_t kWindowMask = ~(std::uint64_t{3} << 60);

class Warp;
struct Instruction;
/// What an instruction does to the lanes of `mask`, of which there is at least one.
using Step = void (*)(Warp& warp, const Instruction& instruction, Mask mask);

struct Instruction {
  Step step = nullptr;
  std::array<Slot, 6> slots{};  // of the operands, the result first
  Slot guard = kNoSlot;         // the predicate of "@p"
  bool guard_is_negated = false;
  Space space = Space::generic;
  std::uint8_t count = 1;    // elements of a vector
  std::uint32_t detail = 0;  // what distinguishes instructions of one step, such as the rounding of a conversion
  std::uint32_t target = 0;  // of a branch
  std::int64_t offset = 0;   // of an address
};

/// What a message says of an instruction.
struct Origin {
  std::string opcode;
  int line = 0, cuda_line = 0;
};

enum class Special : std::uint8_t { tid, ntid, ctaid, nctaid, laneid, warpid };
struct SpecialRegister {
  Slot slot;
  Special which;
  std::uint8_t axis;
};
struct Constant {
  Slot slot;
  unsigned bytes;
  std::uint64_t bits;
};
struct Parameter {
  std::uint64_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Origin> origins;  // of each instruction
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  std::vector<Parameter> parameters;
  std::uint64_t register_bytes = 0;  // of a warp
  std::uint64_t shared_bytes = 0, local_bytes = 0, parameter_bytes = 0;
  unsigned max_threads = 0;
  Slot carry = 0;  // the flag CC.CF: one byte for each lane
};

}  // namespace moxie::ptx
