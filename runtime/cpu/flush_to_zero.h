#pragma once
// FlushToZero: results below the smallest normal number become zeros of their sign, for the duration of a scope.
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace moxie {

/// A processor takes a hundred cycles and more for an instruction with a subnormal result: ten steps of 300 points that
/// move under a Gaussian kernel and drift apart took 9.3 ms, and take 1.1. The mode belongs to the calling thread and
/// is what it was before when the scope ends, so that a host program keeps its own.
class FlushToZero {
 public:
  /// Leaves the mode as it is where it is not wanted, or there already: to write it takes longer than a step of a
  /// scalar recurrence.
  explicit FlushToZero(bool wanted) : before_(wanted ? mode() : kFlush), sets_((before_ & kFlush) == 0) {
    if (sets_) set_mode(before_ | kFlush);
  }
  ~FlushToZero() {
    if (sets_) set_mode(before_);
  }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
#if defined(__x86_64__)
  using Mode = unsigned;
  static constexpr Mode kFlush = _MM_FLUSH_ZERO_ON;
  static Mode mode() { return _mm_getcsr(); }
  static void set_mode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kFlush = std::uint64_t{1} << 24;  // FPCR.FZ
  static Mode mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = int;
  static constexpr Mode kFlush = 1;
  static Mode mode() { return 0; }
  static void set_mode(Mode) {}
#endif
  Mode before_;
  bool sets_;
};

}  // namespace moxie
