#pragma once
// The plateau rule: the learning rate falls when the validation loss no longer does.
#include <cstdint>
#include <limits>

namespace moxie {

struct PlateauOptions {
  int patience = 20;     // evaluations without a new best loss before the rate falls
  double factor = 0.1;   // by which it falls
  double lowest = 1e-6;  // a rate that would fall below this ends the training
};

struct PlateauState {
  double rate = 1e-3;
  double best = std::numeric_limits<double>::infinity();  // the lowest validation loss so far
  int waiting = 0;                                        // evaluations since then, or since the rate last fell
  bool operator==(const PlateauState&) const = default;
};

enum class PlateauVerdict : std::uint8_t { Improved, Waiting, RateFell, Finished };

/// Takes note of the loss of one evaluation. A loss that is not a number is no improvement.
PlateauVerdict observe(PlateauState& state, const PlateauOptions& options, double loss);

}  // namespace moxie
