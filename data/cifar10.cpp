#include <fmt/format.h>

#include <array>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/images.h"
#include "data/loaders.h"
#include "data/locate.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

constexpr ImageShape kShape = {32, 32, 3};
constexpr std::size_t kPlane = kShape.height * kShape.width, kPixelValues = kPlane * kShape.channels;
constexpr std::size_t kRecord = 1 + kPixelValues;  // a label, then the planes of red, green and blue

const std::vector<std::string> kLabels = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};

/// Means and standard deviations of the channels of the whole set, where white is 1.
constexpr std::array<double, 3> kMean = {0.4914, 0.4822, 0.4465}, kDeviation = {0.2470, 0.2435, 0.2616};

std::vector<NumericEncoding> channels() {
  constexpr double kWhite = 255;
  std::vector<NumericEncoding> result;
  for (std::size_t c = 0; c < kShape.channels; ++c) result.push_back({kMean[c] * kWhite, 1 / (kDeviation[c] * kWhite)});
  return result;
}

/// The records of a file in the upstream format.
std::string read_records(const fs::path& path) {
  std::string records = read_whole_file(path);
  if (records.empty() || records.size() % kRecord != 0)
    throw DataError(fmt::format("{}: its {} bytes are not a number of records of {} bytes: a label and 3x32x32 pixels",
                                path.string(), records.size(), kRecord));
  for (std::size_t at = 0; at < records.size(); at += kRecord) {
    const auto label = static_cast<unsigned char>(records[at]);
    if (label >= kLabels.size())
      throw DataError(fmt::format("{}: the label of image {} is {}, but there are {} classes, from 0", path.string(),
                                  at / kRecord + 1, label, kLabels.size()));
  }
  return records;
}

/// Puts the channels of each pixel together.
void decode(std::string_view records, std::size_t begin, const std::vector<NumericEncoding>& scale, Samples& out) {
  for (std::size_t i = 0; i * kRecord < records.size(); ++i) {
    const std::string_view record = records.substr(i * kRecord, kRecord);
    out.y(begin + i, static_cast<unsigned char>(record[0])) = 1;
    const std::span<float> x = out.x.row(begin + i);
    for (std::size_t k = 0; k < kPixelValues; ++k) {
      const std::size_t pixel = k / kShape.channels, channel = k % kShape.channels;
      const auto value = static_cast<unsigned char>(record[1 + channel * kPlane + pixel]);
      x[k] = static_cast<float>((value - scale[channel].offset) * scale[channel].scale);
    }
  }
}

}  // namespace

Dataset load_cifar10(const Preset& preset, const LoadOptions& options) {
  Encoding encoding = image_encoding(kShape, channels(), "class", kLabels);
  if (options.encoding && *options.encoding != encoding)
    throw DataError("cifar10: the model was trained on a data set with other features");
  const auto read = [&](const char* file) {
    return read_records(locate(options.data_dir, {"cifar10", ""}, file, preset.origin));
  };
  const std::string train = read("train_5000.bin"), test = read("test_1000.bin");
  const std::size_t train_rows = train.size() / kRecord, rows = train_rows + test.size() / kRecord;
  Samples all{Matrix(rows, kPixelValues), Matrix(rows, kLabels.size())};
  decode(train, 0, channels(), all);
  decode(test, train_rows, channels(), all);
  return split_samples(std::string(preset.name), all, std::move(encoding), ordered_split(rows, train_rows),
                       options.validation_share, options.seed);
}

}  // namespace moxie
