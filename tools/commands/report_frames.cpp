#include "tools/commands/report_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tools/commands/report_image.h"

namespace moxie {
namespace {

constexpr std::size_t kSequencesShown = 4;

/// Frames side by side, with a white line between two; `value` of a pixel by its place in the row of data.
GreyImage strip(const ImageShape& shape, const std::function<double(std::size_t)>& value) {
  const std::size_t step = shape.width + 1;
  GreyImage image{shape.channels * step - 1, shape.height, {}};
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      const std::size_t pixel = (x / step * shape.height + y) * shape.width + x % step;
      image.values.push_back(x % step == shape.width ? 1 : value(pixel));
    }
  }
  return image;
}

std::string row(const std::string& name, const GreyImage& image) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, image_element(image, name));
}

}  // namespace

bool has_frames(const Encoding& encoding) {
  const ImageShape& shape = encoding.image;
  return encoding.task == Task::Regression && shape.channels > 0 &&
         encoding.target_count() == shape.height * shape.width * shape.channels;
}

std::string frame_tables(const Prediction& prediction, const Samples& samples, const Encoding& encoding) {
  std::string text;
  for (std::size_t s = 0; s < std::min(samples.rows(), kSequencesShown); ++s) {
    const std::size_t first = s * prediction.columns;
    const auto sd = [&](std::size_t k) { return std::sqrt(prediction.variance[first + k]); };
    double largest = std::numeric_limits<double>::min();
    for (std::size_t k = 0; k < prediction.columns; ++k) largest = std::max(largest, sd(k));
    const auto add = [&](const std::string& name, const std::function<double(std::size_t)>& value) {
      text += row(name, strip(encoding.image, value));
    };
    text += "<table class=\"frames\">\n";
    add("read", [&](std::size_t k) { return samples.x(s, k); });
    add("target", [&](std::size_t k) { return samples.y(s, k) * encoding.targets[k].sd + encoding.targets[k].mean; });
    add("mean", [&](std::size_t k) { return prediction.mean[first + k]; });
    add(fmt::format("sd, white: {:.2g}", largest), [&](std::size_t k) { return sd(k) / largest; });
    text += "</table>\n";
  }
  return text;
}

}  // namespace moxie
