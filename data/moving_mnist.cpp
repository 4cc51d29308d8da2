#include "data/moving_mnist.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/arithmetic/philox.h"
#include "compiler/support/error.h"
#include "data/dataset.h"
#include "data/images.h"
#include "data/loaders.h"

namespace moxie {
namespace {

constexpr std::size_t kDigit = 28;
/// What a set can be made of: more would take the memory or hours.
constexpr std::size_t kMaximumDigits = 1000, kMaximumSide = 4096, kMaximumValues = std::size_t{1} << 32;

/// Keep the draws apart from those of Programs, of initial values and of the order of samples.
constexpr std::int64_t kMotionStream = -3, kNoiseStream = -4;

/// Where a digit is, in pixels from the upper left corner, and where it goes.
struct Motion {
  std::size_t image;
  double row, column, down, right;
};

/// Along one axis, bouncing between 0 and `room`.
void advance(double& place, double& speed, double room) {
  if (room <= 0) return;  // a digit that fills the frame cannot move
  place += speed;
  while (place < 0 || place > room) {
    place = place < 0 ? -place : 2 * room - place;
    speed = -speed;
  }
}

Motion draw_motion(std::size_t sequence, std::size_t digit, std::size_t images, const MovingMnistOptions& o) {
  const PhiloxKey key = philox_key(o.seed, kMotionStream, 0);
  const auto words = [&](std::uint32_t part) {
    return philox4x32_10({static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(digit), part, 0}, key);
  };
  const PhiloxCounter place = words(0), motion = words(1);
  const double room = static_cast<double>(o.side - kDigit);
  const double angle = (o.angle + o.angle_spread * (2 * uniform_from_word(motion[0]) - 1)) * std::numbers::pi / 180;
  const double speed = o.speed + o.speed_spread * (2 * uniform_from_word(motion[1]) - 1);
  const auto image = static_cast<std::size_t>(uniform_from_word(place[2]) * static_cast<double>(images));
  return {std::min(image, images - 1), room * uniform_from_word(place[0]), room * uniform_from_word(place[1]),
          speed * std::sin(angle), speed * std::cos(angle)};
}

/// Where digits overlap the brighter one is seen.
void paint(std::span<const float> image, const Motion& at, const MovingMnistOptions& o, std::vector<float>& canvas) {
  const auto row = static_cast<std::size_t>(std::lround(at.row)),
             column = static_cast<std::size_t>(std::lround(at.column));
  for (std::size_t i = 0; i < kDigit; ++i) {
    for (std::size_t j = 0; j < kDigit; ++j) {
      float& pixel = canvas[(row + i) * o.side + column + j];
      pixel = std::max(pixel, image[i * kDigit + j]);
    }
  }
}

void pool(const std::vector<float>& canvas, const MovingMnistOptions& o, std::span<float> frame) {
  const auto area = static_cast<float>(o.pooling * o.pooling);
  for (std::size_t i = 0; i < o.side; ++i) {
    for (std::size_t j = 0; j < o.side; ++j)
      frame[i / o.pooling * o.width() + j / o.pooling] += canvas[i * o.side + j] / area;
  }
}

void add_noise(std::span<float> row, std::size_t sequence, const MovingMnistOptions& o) {
  if (o.noise == 0) return;
  const PhiloxKey key = philox_key(o.seed, kNoiseStream, 0);
  const auto words = [&](std::size_t pixel, std::uint32_t part) {
    return philox4x32_10({static_cast<std::uint32_t>(pixel), static_cast<std::uint32_t>(sequence), part, 0}, key);
  };
  const double deviation = o.noise + o.noise_spread * (2 * uniform_from_word(words(0, 1)[0]) - 1);
  for (std::size_t k = 0; k < row.size(); ++k) {
    const PhiloxCounter drawn = words(k, 0);
    row[k] += static_cast<float>(deviation * normal_from_words(drawn[0], drawn[1]));
  }
}

[[noreturn]] void refuse(std::string_view what, double value, std::string_view wanted) {
  throw DataError(fmt::format("moving-mnist: {} is {}, but must be {}", what, value, wanted));
}

/// Frames in two halves: what is read, and what is to be written.
Samples halves(const Matrix& sequences, const MovingMnistOptions& o) {
  const std::size_t half = o.frames / 2 * o.pixels();
  Samples result{Matrix(sequences.rows, half), Matrix(sequences.rows, half)};
  for (std::size_t k = 0; k < sequences.rows; ++k) {
    const auto row = sequences.row(k);
    std::ranges::copy(row.first(half), result.x.row(k).begin());
    std::ranges::copy(o.reconstruct ? row.first(half) : row.subspan(half, half), result.y.row(k).begin());
  }
  return result;
}

Encoding frame_encoding(const MovingMnistOptions& o) {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.image = {o.width(), o.width(), o.frames / 2};
  for (std::size_t t = 0; t < o.frames / 2; ++t) {
    for (std::size_t p = 0; p < o.pixels(); ++p) {
      const std::string pixel = fmt::format("pixel {},{}", p / o.width(), p % o.width());
      encoding.features.push_back({fmt::format("frame {} {}", t + 1, pixel), ColumnKind::Numeric, {}, false, {}});
      encoding.targets.push_back({fmt::format("frame {} {}", t + 1 + (o.reconstruct ? 0 : o.frames / 2), pixel)});
    }
  }
  return encoding;
}

}  // namespace

void check(const MovingMnistOptions& o) {
  if (o.sequences < 4) refuse("the number of sequences", static_cast<double>(o.sequences), "at least 4");
  if (o.digits < 1) refuse("the number of digits", static_cast<double>(o.digits), "positive");
  if (o.frames < 2 || o.frames % 2 != 0)
    refuse("the number of frames", static_cast<double>(o.frames), "even, one half to read and one to write");
  if (o.side < kDigit) refuse("the side of a frame", static_cast<double>(o.side), "at least 28 pixels, for a digit");
  if (o.digits > kMaximumDigits)
    refuse("the number of digits", static_cast<double>(o.digits), fmt::format("at most {}", kMaximumDigits));
  if (o.side > kMaximumSide)
    refuse("the side of a frame", static_cast<double>(o.side), fmt::format("at most {} pixels", kMaximumSide));
  if (o.frames > kMaximumValues / (o.side * o.side) || o.sequences > kMaximumValues / (o.side * o.side) / o.frames)
    refuse("the number of sequences", static_cast<double>(o.sequences),
           fmt::format("at most {} for sequences of {} frames of that size",
                       kMaximumValues / (o.side * o.side) / o.frames, o.frames));
  if (o.pooling < 1 || o.side % o.pooling != 0)
    refuse("the pooling", static_cast<double>(o.pooling), fmt::format("a divisor of {}", o.side));
  if (!std::isfinite(o.angle)) refuse("the angle", o.angle, "a number of degrees");
  if (!(o.angle_spread >= 0 && o.angle_spread <= 180)) refuse("the spread of angles", o.angle_spread, "from 0 to 180");
  if (!(o.speed_spread >= 0)) refuse("the spread of speeds", o.speed_spread, "0 or positive");
  if (!(o.speed >= o.speed_spread) || o.speed > static_cast<double>(o.side))
    refuse("the speed", o.speed, "at least its spread and at most the side of a frame");
  if (!(o.noise >= 0) || !std::isfinite(o.noise)) refuse("the noise", o.noise, "0 or positive");
  if (!(o.noise_spread >= 0 && o.noise_spread <= o.noise))
    refuse("the spread of noise", o.noise_spread, "from 0 to the noise");
}

Matrix moving_digits(const Matrix& images, std::size_t sequences, const MovingMnistOptions& o) {
  check(o);
  Matrix result(sequences, o.frames * o.pixels());
  const double room = static_cast<double>(o.side - kDigit);
  for (std::size_t k = 0; k < sequences; ++k) {
    std::vector<Motion> motions;
    for (std::size_t d = 0; d < o.digits; ++d) motions.push_back(draw_motion(k, d, images.rows, o));
    for (std::size_t t = 0; t < o.frames; ++t) {
      std::vector<float> canvas(o.side * o.side);
      for (Motion& motion : motions) {
        paint(images.row(motion.image), motion, o, canvas);
        advance(motion.row, motion.down, room);
        advance(motion.column, motion.right, room);
      }
      pool(canvas, o, result.row(k).subspan(t * o.pixels(), o.pixels()));
    }
    add_noise(result.row(k), k, o);
  }
  return result;
}

Dataset load_moving_mnist(const Preset& preset, const LoadOptions& options) {
  MovingMnistOptions moving = options.moving_mnist;
  moving.seed = options.seed;
  check(moving);
  Encoding encoding = frame_encoding(moving);
  if (options.encoding && *options.encoding != encoding)
    throw DataError(fmt::format("moving-mnist: the model was trained on frames of another number, size or task"));
  LoadOptions still = options;
  still.encoding = nullptr;
  const Dataset digits = load_mnist(preset, still);
  const Samples seen = halves(moving_digits(digits.train.x, moving.sequences, moving), moving);
  moving.seed += 1;
  const Samples test =
      halves(moving_digits(digits.test.x, std::max<std::size_t>(moving.sequences / 10, 1), moving), moving);
  const RowSplit split = ordered_split(seen.rows(), seen.rows() - 1);
  Dataset data =
      split_samples(std::string(preset.name), seen, std::move(encoding), split, options.validation_share, options.seed);
  data.test = test;
  return data;
}

}  // namespace moxie
