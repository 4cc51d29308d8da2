// Processor time of a formula, as `moxie bench` takes it.
#include <ctime>

#include "hand.h"

namespace {

double processor_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

/// The median of at least 21 runs, and of more while they are short.
extern "C" double median_seconds(bool gradients, const std::int64_t* dims, const float* const* in, float* const* out) {
  const auto run = gradients ? forward_backward : forward;
  for (int k = 0; k < 5; ++k) run(dims, in, out);
  std::vector<double> times;
  double sum = 0;
  while (times.size() < 21 || (times.size() < 2001 && sum < 0.5)) {
    const double start = processor_seconds();
    run(dims, in, out);
    sum += times.emplace_back(processor_seconds() - start);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}
