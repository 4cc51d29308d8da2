// Conversions between types.
#include <cfenv>
#include <cmath>
#include <limits>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

// The parts of an instruction's detail: rounding, flags, and the bytes of the registers.
constexpr std::uint32_t kRoundingBits = 3;
constexpr std::uint32_t kToIntegral = 4;
constexpr std::uint32_t kSaturates = 8;
constexpr std::uint32_t kFlushes = 16;
constexpr unsigned kToBytesShift = 8;
constexpr unsigned kFromBytesShift = 16;

template <class T>
T flushed(T a) {
  return std::fabs(a) < std::numeric_limits<T>::min() ? std::copysign(T{0}, a) : a;
}

template <class T>
T to_integral(T a, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return std::nearbyint(a);
    case Rounding::zero:
      return std::trunc(a);
    case Rounding::down:
      return std::floor(a);
    case Rounding::up:
      return std::ceil(a);
  }
  return a;
}

constexpr int direction_of(Rounding rounding) {
  constexpr int kDirections[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  return kDirections[static_cast<int>(rounding)];
}

/// What a GPU gives for a number that is none: 0 where it goes from 32 bits to at most 32, else only the highest bit.
template <class To, class From>
constexpr To kFromNan =
    sizeof(From) == 4 && sizeof(To) <= 4 ? To{0} : static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1));

/// Numbers beyond the range of `To` become its lowest or highest.
template <class To, class From>
To clamp_to(From a) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(a)) return kFromNan<To, From>;
    if (a >= std::ldexp(From{1}, Limits::digits)) return Limits::max();
    if (a < static_cast<From>(Limits::min())) return Limits::min();
  } else {
    if (std::cmp_less(a, Limits::min())) return Limits::min();
    if (std::cmp_greater(a, Limits::max())) return Limits::max();
  }
  return static_cast<To>(a);
}

template <class To, class From>
To convert(From a, Rounding rounding, std::uint32_t detail) {
  if constexpr (std::is_floating_point_v<From>) {
    if ((detail & kFlushes) != 0 && sizeof(From) == 4) a = flushed(a);
    if ((detail & kToIntegral) != 0 || std::is_integral_v<To>) a = to_integral(a, rounding);
  }
  if constexpr (std::is_floating_point_v<To>) {
    const volatile From source = a;  // so that it is converted in the rounding of now
    To result = static_cast<To>(source);
    if ((detail & kFlushes) != 0 && sizeof(To) == 4) result = flushed(result);
    if ((detail & kSaturates) != 0) result = result > 0 ? (result < 1 ? result : 1) : 0;
    return result;
  } else if constexpr (std::is_floating_point_v<From>) {
    return clamp_to<To>(a);
  } else {
    return (detail & kSaturates) != 0 ? clamp_to<To>(a) : static_cast<To>(a);
  }
}

/// The lanes of a register of so many bytes, in 64 bits each.
void read_lanes(Warp& warp, Slot slot, unsigned bytes, std::uint64_t* values) {
  const auto read = [&]<class R>(R) {
    for (unsigned lane = 0; lane < kLanes; ++lane) values[lane] = warp.lanes<R>(slot)[lane];
  };
  if (bytes == 2) read(std::uint16_t());
  if (bytes == 4) read(std::uint32_t());
  if (bytes == 8) read(std::uint64_t());
}

void write_bits(Warp& warp, Slot slot, unsigned bytes, const std::uint64_t* values, Mask mask) {
  const auto write = [&]<class R>(R) {
    R narrow[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) narrow[lane] = static_cast<R>(values[lane]);
    write_lanes(warp.lanes<R>(slot), narrow, mask);
  };
  if (bytes == 2) write(std::uint16_t());
  if (bytes == 4) write(std::uint32_t());
  if (bytes == 8) write(std::uint64_t());
}

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  return static_cast<T>(bits);
}
/// Signs are extended.
template <class T>
std::uint64_t to_bits(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint32_t>(value);
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(value);
  return static_cast<std::uint64_t>(value);
}

template <class To, class From>
void step(Warp& warp, const Instruction& instruction, Mask mask) {
  const std::uint32_t detail = instruction.detail;
  const auto rounding = static_cast<Rounding>(detail & kRoundingBits);
  const bool is_directed =
      std::is_floating_point_v<To> && (detail & kToIntegral) == 0 && rounding != Rounding::nearest_even;
  std::uint64_t values[kLanes] = {};
  read_lanes(warp, instruction.slots[1], detail >> kFromBytesShift & 255, values);
  if (is_directed) std::fesetround(direction_of(rounding));
  for (std::uint64_t& value : values) value = to_bits(convert<To>(from_bits<From>(value), rounding, detail));
  if (is_directed) std::fesetround(FE_TONEAREST);
  write_bits(warp, instruction.slots[0], detail >> kToBytesShift & 255, values, mask);
}

template <class To>
Step step_from(Type from) {
  const bool is_signed = from.kind == 's';
  if (from.kind == 'f') return from.bytes == 4 ? step<To, float> : step<To, double>;
  switch (from.bytes) {
    case 1:
      return is_signed ? step<To, std::int8_t> : step<To, std::uint8_t>;
    case 2:
      return is_signed ? step<To, std::int16_t> : step<To, std::uint16_t>;
    case 4:
      return is_signed ? step<To, std::int32_t> : step<To, std::uint32_t>;
    default:
      return is_signed ? step<To, std::int64_t> : step<To, std::uint64_t>;
  }
}

}  // namespace

std::uint32_t detail_of(const Conversion& conversion) {
  return static_cast<std::uint32_t>(conversion.rounding) | (conversion.to_integral ? kToIntegral : 0) |
         (conversion.saturates ? kSaturates : 0) | (conversion.flushes ? kFlushes : 0) |
         conversion.to_bytes << kToBytesShift | conversion.from_bytes << kFromBytesShift;
}

Step conversion_step(const Conversion& conversion) {
  const Type to = conversion.to;
  if (to.kind == 'f') return to.bytes == 4 ? step_from<float>(conversion.from) : step_from<double>(conversion.from);
  const bool is_signed = to.kind == 's';
  switch (to.bytes) {
    case 1:
      return is_signed ? step_from<std::int8_t>(conversion.from) : step_from<std::uint8_t>(conversion.from);
    case 2:
      return is_signed ? step_from<std::int16_t>(conversion.from) : step_from<std::uint16_t>(conversion.from);
    case 4:
      return is_signed ? step_from<std::int32_t>(conversion.from) : step_from<std::uint32_t>(conversion.from);
    default:
      return is_signed ? step_from<std::int64_t>(conversion.from) : step_from<std::uint64_t>(conversion.from);
  }
}

}  // namespace moxie::ptx
