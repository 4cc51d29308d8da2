#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/idx.h"
#include "data/images.h"
#include "data/loaders.h"
#include "data/locate.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSide = 28, kPixels = kSide * kSide, kClasses = 10;
constexpr float kWhite = 255;

std::vector<std::string> digits() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kClasses; ++i) names.push_back(std::to_string(i));
  return names;
}

IdxArray read_idx(const fs::path& path) { return parse_idx(read_whole_file(path), path.string()); }

/// Writes the images and labels of two files below each other, from row `begin` on.
class Images {
 public:
  Images(const fs::path& image_file, const fs::path& label_file)
      : images_(read_idx(image_file)), labels_(read_idx(label_file)) {
    const std::size_t count = labels_.shape[0];
    if (labels_.shape.size() != 1)
      throw DataError(fmt::format("{}: must be a list of labels, not of shape {}", label_file.string(), labels_.shape));
    if (images_.shape != std::vector<std::size_t>{count, kSide, kSide})
      throw DataError(fmt::format("{}: has shape {}; for the {} labels of {} it must be [{}, {}, {}]",
                                  image_file.string(), images_.shape, count, label_file.string(), count, kSide, kSide));
    for (std::size_t i = 0; i < count; ++i)
      if (labels_.values[i] >= kClasses)
        throw DataError(fmt::format("{}: label {} is {}, not a digit", label_file.string(), i + 1, labels_.values[i]));
  }

  std::size_t count() const { return labels_.values.size(); }

  void write(Samples& out, std::size_t begin) const {
    std::ranges::transform(images_.values, out.x.values.begin() + static_cast<std::ptrdiff_t>(begin * kPixels),
                           [](std::uint8_t pixel) { return static_cast<float>(pixel) / kWhite; });
    for (std::size_t i = 0; i < count(); ++i) out.y(begin + i, labels_.values[i]) = 1;
  }

 private:
  IdxArray images_, labels_;
};

}  // namespace

Dataset load_mnist(const Preset& preset, const LoadOptions& options) {
  Encoding encoding = image_encoding({kSide, kSide, 1}, {{0, 1 / kWhite}}, "digit", digits());
  if (options.encoding && *options.encoding != encoding)
    throw DataError("mnist: the model was trained on a data set with other features");
  const auto path = [&](const char* file) { return locate(options.data_dir, {"mnist", ""}, file, preset.origin); };
  const Images train(path("train-images-idx3-ubyte"), path("train-labels-idx1-ubyte"));
  const Images test(path("t10k-images-idx3-ubyte"), path("t10k-labels-idx1-ubyte"));
  const std::size_t rows = train.count() + test.count();
  Samples all{Matrix(rows, kPixels), Matrix(rows, kClasses)};
  train.write(all, 0);
  test.write(all, train.count());
  const RowSplit split = ordered_split(rows, train.count());
  return split_samples(std::string(preset.name), all, std::move(encoding), split, options.validation_share,
                       options.seed);
}

}  // namespace moxie
