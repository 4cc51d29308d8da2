#pragma once
// Moving MNIST: digits that bounce around in a square.
#include <cstdint>
#include <vector>

#include "data/matrix.h"

namespace moxie {

struct MovingMnistOptions {
  std::size_t sequences = 1000;  // for training and validation; a tenth as many for tests
  std::size_t digits = 1;
  std::size_t frames = 20;  // the first half is read
  std::size_t side = 64;    // of the square, in pixels
  std::size_t pooling = 4;  // so many pixels in a row, and as many rows, are averaged into one
  double angle = 0;         // of the motion, in degrees; that of each digit lies at most `angle_spread` from it
  double angle_spread = 180;
  double speed = 3;  // in pixels per frame, and how far that of a digit lies from it at most
  double speed_spread = 1;
  double noise = 0;          // standard deviation of what is added to every pixel, white being 1
  double noise_spread = 0;   // how far that of a sequence lies from it at most
  bool reconstruct = false;  // what is to be written: the frames that are read, or those behind them
  std::uint64_t seed = 1;
  bool operator==(const MovingMnistOptions&) const = default;

  std::size_t width() const { return side / pooling; }  // of a frame as the network sees it
  std::size_t pixels() const { return width() * width(); }
};

/// Throws DataError for options out of range.
void check(const MovingMnistOptions& options);

/// Row by row, `options.frames` frames one after the other, of digits drawn from `images` (rows of 28x28 pixels). The
/// same for the same seed, on every machine; rows do not depend on how many there are.
Matrix moving_digits(const Matrix& images, std::size_t sequences, const MovingMnistOptions& options);

}  // namespace moxie
