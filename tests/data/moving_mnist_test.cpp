#include "data/moving_mnist.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

constexpr std::size_t kDigit = 28;

/// One white square of 28x28.
Matrix white() {
  Matrix images(1, kDigit * kDigit);
  std::ranges::fill(images.values, 1.0F);
  return images;
}

MovingMnistOptions options() {
  MovingMnistOptions result;
  result.sequences = 4;
  result.frames = 30;
  result.pooling = 1;
  result.angle_spread = 0;
  result.speed_spread = 0;
  return result;
}

/// The column of the left edge of the white square.
std::size_t left_edge(const Matrix& rows, std::size_t frame, const MovingMnistOptions& o) {
  for (std::size_t column = 0; column < o.side; ++column) {
    for (std::size_t row = 0; row < o.side; ++row) {
      if (rows(0, frame * o.pixels() + row * o.side + column) > 0) return column;
    }
  }
  return o.side;
}

TEST_CASE("digits move at their speed, and bounce without leaving the square") {
  const MovingMnistOptions o = options();  // to the right, 3 pixels a frame
  const Matrix rows = moving_digits(white(), 1, o);
  bool bounced = false;
  for (std::size_t t = 0; t < o.frames; ++t) {
    double sum = 0;
    for (std::size_t p = 0; p < o.pixels(); ++p) sum += rows(0, t * o.pixels() + p);
    CHECK(sum == kDigit * kDigit);
    if (t == 0) continue;
    const auto step = static_cast<double>(left_edge(rows, t, o)) - static_cast<double>(left_edge(rows, t - 1, o));
    bounced |= step < 0;
    CHECK(std::abs(step) <= 4);
  }
  CHECK(bounced);
}

TEST_CASE("a sequence depends on the seed alone") {
  MovingMnistOptions o = options();
  o.angle_spread = 180;
  o.noise = 0.1;
  const Matrix few = moving_digits(white(), 2, o), many = moving_digits(white(), 3, o);
  CHECK(std::ranges::equal(few.row(1), many.row(1)));
  o.seed = 2;
  CHECK_FALSE(std::ranges::equal(few.row(1), moving_digits(white(), 2, o).row(1)));
}

TEST_CASE("pooling keeps the mean, noise has its deviation") {
  MovingMnistOptions o = options();
  const auto sum = [](const Matrix& m) { return std::accumulate(m.values.begin(), m.values.end(), 0.0); };
  const double whole = sum(moving_digits(white(), 1, o));
  o.pooling = 4;
  const Matrix pooled = moving_digits(white(), 1, o);
  CHECK(sum(pooled) == doctest::Approx(whole / 16));
  o.noise = 0.5;
  const Matrix noisy = moving_digits(white(), 1, o);
  double squares = 0;
  for (std::size_t k = 0; k < noisy.values.size(); ++k)
    squares += std::pow(noisy.values[k] - pooled.values[k], 2) / static_cast<double>(noisy.values.size());
  CHECK(std::sqrt(squares) == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("the noise of a sequence lies within its spread") {
  MovingMnistOptions o = options();
  const Matrix clean = moving_digits(white(), 8, o);
  o.noise = 0.3;
  o.noise_spread = 0.2;
  const Matrix noisy = moving_digits(white(), 8, o);
  std::vector<double> deviations;
  for (std::size_t k = 0; k < clean.rows; ++k) {
    double squares = 0;
    for (std::size_t p = 0; p < clean.columns; ++p)
      squares += std::pow(noisy(k, p) - clean(k, p), 2) / static_cast<double>(clean.columns);
    deviations.push_back(std::sqrt(squares));
  }
  const auto [least, most] = std::ranges::minmax(deviations);
  CHECK(least > 0.09);
  CHECK(most < 0.51);
  CHECK(most - least > 0.1);
}

TEST_CASE("a digit that fills the frame stays where it is") {
  MovingMnistOptions o = options();
  o.side = kDigit;
  const Matrix rows = moving_digits(white(), 1, o);
  CHECK(std::ranges::all_of(rows.values, [](float pixel) { return pixel == 1; }));
}

struct Refusal {
  void (*spoil)(MovingMnistOptions& options);
  const char* message;
};

TEST_CASE("frames that make no sense") {
  const Refusal refusals[] = {
      {[](MovingMnistOptions& o) { o.sequences = 3; }, "the number of sequences is 3, but must be at least 4"},
      {[](MovingMnistOptions& o) { o.digits = 0; }, "the number of digits is 0, but must be positive"},
      {[](MovingMnistOptions& o) { o.frames = 7; },
       "the number of frames is 7, but must be even, one half to read and one to write"},
      {[](MovingMnistOptions& o) { o.side = 20; },
       "the side of a frame is 20, but must be at least 28 pixels, for a digit"},
      {[](MovingMnistOptions& o) { o.digits = 1'000'000'000; },
       "the number of digits is 1000000000, but must be at most 1000"},
      {[](MovingMnistOptions& o) { o.side = std::size_t{1} << 40; },
       "the side of a frame is 1099511627776, but must be at most 4096 pixels"},
      {[](MovingMnistOptions& o) { o.frames = std::size_t{1} << 50; },
       "the number of sequences is 4, but must be at most 0 for sequences of 1125899906842624 frames of that size"},
      {[](MovingMnistOptions& o) { o.sequences = std::size_t{1} << 62; },
       "the number of sequences is 4.611686018427388e+18, but must be at most 34952 for sequences of 30 frames of that "
       "size"},
      {[](MovingMnistOptions& o) { o.pooling = 5; }, "the pooling is 5, but must be a divisor of 64"},
      {[](MovingMnistOptions& o) { o.angle_spread = 200; }, "the spread of angles is 200, but must be from 0 to 180"},
      {[](MovingMnistOptions& o) { o.speed = -1; },
       "the speed is -1, but must be at least its spread and at most the side of a frame"},
      {[](MovingMnistOptions& o) { o.noise = -0.1; }, "the noise is -0.1, but must be 0 or positive"},
      {[](MovingMnistOptions& o) { o.noise_spread = 0.1; },
       "the spread of noise is 0.1, but must be from 0 to the noise"},
  };
  for (const Refusal& refusal : refusals) {
    MovingMnistOptions o = options();
    refusal.spoil(o);
    CHECK(data_error([&] { moving_digits(white(), 1, o); }) == std::string("moving-mnist: ") + refusal.message);
  }
}

}  // namespace
