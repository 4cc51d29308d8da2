#include "runtime/cpu/relocation.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "compiler/support/error.h"

namespace moxie {
namespace {

template <class T>
T read(std::span<const std::byte> where) {
  if (where.size() < sizeof(T)) throw CacheError("object code is damaged: a relocation ends outside its section");
  T value;
  std::memcpy(&value, where.data(), sizeof(T));
  return value;
}

template <class T>
void write(std::span<std::byte> where, T value) {
  if (where.size() < sizeof(T)) throw CacheError("object code is damaged: a relocation ends outside its section");
  std::memcpy(where.data(), &value, sizeof(T));
}

std::int64_t distance(std::uint64_t target, std::uint64_t place) { return static_cast<std::int64_t>(target - place); }

/// `value`, which must fit in `bits` bits with its sign.
std::int64_t in_reach(std::int64_t value, int bits) {
  const std::int64_t limit = std::int64_t{1} << (bits - 1);
  if (value < -limit || value >= limit)
    throw CacheError(fmt::format("object code is damaged: a relocation reaches {} bytes away", value));
  return value;
}

[[noreturn]] void refuse(const char* machine, std::uint32_t type) {
  throw CacheError(fmt::format("object code has an {} relocation of type {}, which kernels do not use", machine, type));
}

void apply_x86_64(std::uint32_t type, std::span<std::byte> where, std::uint64_t target, std::uint64_t place) {
  switch (type) {
    case R_X86_64_NONE:
      return;
    case R_X86_64_64:
      return write(where, target);
    case R_X86_64_PC64:
      return write(where, distance(target, place));
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return write(where, static_cast<std::int32_t>(in_reach(distance(target, place), 32)));
    case R_X86_64_32S:
      return write(where, static_cast<std::int32_t>(in_reach(static_cast<std::int64_t>(target), 32)));
    case R_X86_64_32:
      if (target > std::numeric_limits<std::uint32_t>::max())
        throw CacheError("object code needs an address below 4 GiB");
      return write(where, static_cast<std::uint32_t>(target));
    default:
      refuse("x86-64", type);
  }
}

/// Replaces `width` bits of an instruction, from bit `shift` on, by the low bits of `value`.
void set_field(std::span<std::byte> where, int shift, int width, std::uint64_t value) {
  const std::uint32_t mask = ((std::uint32_t{1} << width) - 1) << shift;
  const std::uint32_t field = (static_cast<std::uint32_t>(value) << shift) & mask;
  write(where, (read<std::uint32_t>(where) & ~mask) | field);
}

/// The low 12 bits of an address as the unsigned offset of an instruction that counts in units of 2^scale bytes.
void set_low_12(std::span<std::byte> where, std::uint64_t target, int scale) {
  const std::uint64_t low = target & 0xFFF;
  if (low % (std::uint64_t{1} << scale) != 0)
    throw CacheError("object code is damaged: a load is relocated to an unaligned address");
  set_field(where, 10, 12, low >> scale);
}

void set_adr(std::span<std::byte> where, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(in_reach(value, 21));
  set_field(where, 29, 2, bits & 3);
  set_field(where, 5, 19, bits >> 2);
}

void apply_aarch64(std::uint32_t type, std::span<std::byte> where, std::uint64_t target, std::uint64_t place) {
  switch (type) {
    case R_AARCH64_NONE:
      return;
    case R_AARCH64_ABS64:
      return write(where, target);
    case R_AARCH64_PREL64:
      return write(where, distance(target, place));
    case R_AARCH64_PREL32:
      return write(where, static_cast<std::int32_t>(in_reach(distance(target, place), 32)));
    case R_AARCH64_ADR_PREL_LO21:
      return set_adr(where, distance(target, place));
    case R_AARCH64_ADR_PREL_PG_HI21:
      return set_adr(where, distance(target & ~0xFFFULL, place & ~0xFFFULL) >> 12);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return set_low_12(where, target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return set_low_12(where, target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return set_low_12(where, target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return set_low_12(where, target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return set_low_12(where, target, 4);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return set_field(where, 0, 26, static_cast<std::uint64_t>(in_reach(distance(target, place), 28)) >> 2);
    default:
      refuse("aarch64", type);
  }
}

}  // namespace

void apply_relocation(std::uint16_t machine, std::uint32_t type, std::span<std::byte> where, std::uint64_t target,
                      std::uint64_t place) {
  switch (machine) {
    case EM_X86_64:
      return apply_x86_64(type, where, target, place);
    case EM_AARCH64:
      return apply_aarch64(type, where, target, place);
    default:
      throw CacheError(fmt::format("object code for ELF machine {}, which moxie does not know", machine));
  }
}

}  // namespace moxie
