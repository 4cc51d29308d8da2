#pragma once
// The processor time of this thread, which other programs hardly change.
#include <ctime>

namespace moxie {

/// Seconds so far. Reading the clock takes a fraction of a microsecond.
inline double thread_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace moxie
