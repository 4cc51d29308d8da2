#include "runtime/plateau.h"

namespace moxie {

PlateauVerdict observe(PlateauState& state, const PlateauOptions& options, double loss) {
  if (loss < state.best) {
    state.best = loss;
    state.waiting = 0;
    return PlateauVerdict::Improved;
  }
  if (++state.waiting < options.patience) return PlateauVerdict::Waiting;
  // Repeated division leaves 1.0000000000000002e-06 or 9.999999999999999e-07 of 1e-3: both are the lowest rate.
  constexpr double kRounding = 1 - 1e-9;
  const double next = state.rate * options.factor;
  if (next < options.lowest * kRounding) return PlateauVerdict::Finished;
  state.rate = next;
  state.waiting = 0;
  return PlateauVerdict::RateFell;
}

}  // namespace moxie
