#include "tests/ptx_emulator/warp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

constexpr std::size_t kAlignment = 64;
/// Instructions between two barriers after which a warp is taken for one that never ends: minutes.
constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 30;

/// The lanes, out of 8, whose predicate is set: gathers the lowest bits of 8 bytes into one byte.
Mask eight_bits(const std::uint8_t* predicates) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, predicates, sizeof bytes);
  return static_cast<Mask>(bytes * 0x0102040810204080 >> 56);
}

Mask to_mask(const std::uint8_t* predicates) {
  return eight_bits(predicates) | eight_bits(predicates + 8) << 8 | eight_bits(predicates + 16) << 16 |
         eight_bits(predicates + 24) << 24;
}

unsigned along(const Extent& extent, unsigned axis) { return axis == 0 ? extent.x : axis == 1 ? extent.y : extent.z; }

/// The position of the thread with this number in a block.
Extent thread_position(const Extent& block, unsigned number) {
  return {number % block.x, number / block.x % block.y, number / block.x / block.y};
}

std::string lane_list(Mask lanes) {
  std::vector<int> numbers;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) numbers.push_back(std::countr_zero(rest));
  return fmt::format("{}", fmt::join(numbers, " "));
}

}  // namespace

Warp::Warp(const Launch& launch, SharedMemory& shared, unsigned number)
    : launch_(launch), shared_(shared), number_(number), storage_(launch.kernel.register_bytes + kAlignment) {
  void* begin = storage_.data();
  std::size_t space = storage_.size();
  std::align(kAlignment, launch.kernel.register_bytes, begin, space);
  registers_ = {static_cast<std::byte*>(begin), launch.kernel.register_bytes};
  const std::uint64_t threads = launch.block.count() - std::uint64_t{kLanes} * number;
  all_ = threads >= kLanes ? kAllLanes : (Mask{1} << threads) - 1;
  fill_constants();
}

void Warp::fill_constants() {
  for (const Constant& constant : launch_.kernel.constants) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      std::memcpy(registers_.data() + constant.slot + lane * constant.bytes, &constant.bits, constant.bytes);
  }
}

void Warp::begin_block(Extent position) {
  position_ = position;
  for (const SpecialRegister& special : launch_.kernel.specials) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const Extent thread = thread_position(launch_.block, kLanes * number_ + lane);
      const unsigned values[] = {along(thread, special.axis),
                                 along(launch_.block, special.axis),
                                 along(position, special.axis),
                                 along(launch_.grid, special.axis),
                                 lane,
                                 number_};
      lanes<std::uint32_t>(special.slot)[lane] = values[static_cast<int>(special.which)];
    }
  }
  local_.assign(launch_.kernel.local_bytes * kLanes, std::byte{0xff});
  groups_.clear();
  next_group_ = kNever;
  pc_ = 0;
  active_ = all_;
  shared_epoch_ = 0;
}

void Warp::run() {
  state_ = State::running;
  steps_ = 0;
  const Instruction* code = launch_.kernel.code.data();
  while (state_ == State::running) {
    const Instruction& instruction = code[pc_];
    Mask mask = active_;
    if (instruction.guard != kNoSlot) {
      const Mask guard = to_mask(lanes<std::uint8_t>(instruction.guard));
      mask &= instruction.guard_is_negated ? ~guard : guard;
    }
    ++pc_;
    if (mask != 0) instruction.step(*this, instruction, mask);
    if (pc_ >= next_group_ || active_ == 0) regroup();
    if (++steps_ > kMaxSteps) fail(Reason::launch_timeout, 0, "runs for too long");
  }
}

// ---- Lanes apart, and together again ----

void Warp::park(std::uint32_t pc, Mask lanes, bool waits) {
  groups_.push_back({pc, lanes, waits});
  next_group_ = std::min(next_group_, pc);
}

/// Continues the lowest group that does not wait. Groups at one instruction become one, which does not wait: it may
/// have become complete.
void Warp::regroup() {
  if (active_ != 0) groups_.push_back({pc_, active_, false});
  active_ = 0;
  if (groups_.empty()) {
    state_ = State::ended;
    return;
  }
  std::ranges::sort(groups_, {}, &Group::pc);
  std::vector<Group> joined;
  for (const Group& group : groups_) {
    if (joined.empty() || joined.back().pc != group.pc) {
      joined.push_back(group);
    } else {
      joined.back().lanes |= group.lanes;
      joined.back().waits = joined.back().waits && group.waits;
    }
  }
  groups_ = std::move(joined);
  const auto next = std::ranges::find(groups_, false, &Group::waits);
  if (next == groups_.end()) fail_apart();
  pc_ = next->pc;
  active_ = next->lanes;
  groups_.erase(next);
  const auto above = std::ranges::find_if(groups_, [&](const Group& group) { return group.pc > pc_; });
  next_group_ = above == groups_.end() ? kNever : above->pc;
}

void Warp::branch(Mask taken, std::uint32_t target) {
  const Mask rest = active_ & ~taken;
  if (rest != 0) park(pc_, rest, false);
  active_ = taken;
  pc_ = target;
  // A jump backwards may leave groups behind that were lower than the lanes that jump.
  next_group_ = kNever;
  for (const Group& group : groups_) next_group_ = std::min(next_group_, group.pc);
}

void Warp::end(Mask lanes) {
  active_ &= ~lanes;
  if (active_ == 0) regroup();
}

bool Warp::meet(Mask mask, Mask needed) {
  if ((needed & ~mask) == 0) return true;
  active_ &= ~mask;
  park(pc_ - 1, mask, true);
  return false;
}

void Warp::fail_apart() const {
  std::string where;
  for (const Group& group : groups_)
    where += fmt::format("; lanes {} at {}", lane_list(group.lanes), describe(group.pc));
  throw Fault(Reason::launch_failed,
              fmt::format("kernel {}, block ({}, {}, {}), warp {}: lanes wait for lanes that never come{}",
                          launch_.kernel.name, position_.x, position_.y, position_.z, number_, where));
}

// ---- Memory ----

std::byte* Warp::locate(Space space, std::uint64_t address, std::uint64_t bytes, unsigned lane, Access access) {
  if ((address & (bytes - 1)) != 0)  // `bytes` is a power of two
    fail(Reason::misaligned_address, lane, fmt::format("accesses {} bytes at {:#x}, misaligned", bytes, address));
  if (space == Space::generic) {
    space = Space::global;
    if ((address & ~kWindowMask) == kSharedWindow) space = Space::shared;
    if ((address & ~kWindowMask) == kLocalWindow) space = Space::local;
    address &= kWindowMask;
  }
  if (space == Space::global) return locate_global(address, bytes, lane);
  const auto check = [&](std::uint64_t size, const char* what) {
    if (address <= size && bytes <= size - address) return;
    fail(Reason::illegal_address, lane,
         fmt::format("accesses {} bytes at byte {} of {} of {}", bytes, address, size, what));
  };
  if (space == Space::shared) {
    check(shared_.bytes().size(), "shared memory");
    const std::string problem =
        shared_.note(address, bytes, {number_, lane, shared_epoch_}, static_cast<SharedMemory::Kind>(access));
    if (!problem.empty()) fail(Reason::launch_failed, lane, problem);
    return shared_.bytes().data() + address;
  }
  if (space == Space::local) {
    check(launch_.kernel.local_bytes, "local memory");
    return local_.data() + launch_.kernel.local_bytes * lane + address;
  }
  check(launch_.parameters.size(), "parameters");
  return const_cast<std::byte*>(launch_.parameters.data()) + address;
}

std::byte* Warp::locate_global(std::uint64_t address, std::uint64_t bytes, unsigned lane) {
  if (!recent_.holds(address, bytes)) {
    recent_ = launch_.memory.find(address);
    if (!recent_.holds(address, bytes)) {
      fail(Reason::illegal_address, lane,
           recent_.begin == 0 ? fmt::format("accesses {} bytes at {:#x}, which is in no allocation", bytes, address)
                              : fmt::format("accesses {} bytes at {:#x}, beyond the end of an allocation of {} bytes",
                                            bytes, address, recent_.end - recent_.begin));
    }
  }
  return reinterpret_cast<std::byte*>(address);
}

// ---- Messages ----

std::string Warp::describe(std::uint32_t pc) const {
  const Origin& origin = launch_.kernel.origins.at(pc);
  const std::string cuda = origin.cuda_line > 0 ? fmt::format(", line {} of the CUDA text", origin.cuda_line) : "";
  return fmt::format("{} (PTX line {}{})", origin.opcode, origin.line, cuda);
}

void Warp::fail(Reason reason, unsigned lane, const std::string& what) const {
  const Extent thread = thread_position(launch_.block, kLanes * number_ + lane);
  throw Fault(reason,
              fmt::format("kernel {}, block ({}, {}, {}), thread ({}, {}, {}): {} {}", launch_.kernel.name, position_.x,
                          position_.y, position_.z, thread.x, thread.y, thread.z, describe(pc_ - 1), what));
}

}  // namespace moxie::ptx
