#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/support/error.h"
#include "data/encoding.h"

namespace moxie {

NLOHMANN_JSON_SERIALIZE_ENUM(Task, {{Task::Classification, "classification"}, {Task::Regression, "regression"}})
NLOHMANN_JSON_SERIALIZE_ENUM(ColumnKind, {{ColumnKind::Numeric, "numeric"}, {ColumnKind::Categorical, "categorical"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NumericEncoding, offset, scale, mean)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FeatureEncoding, column, kind, numeric, missing_flag, categories)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TargetEncoding, column, mean, sd)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageShape, height, width, channels)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Encoding, task, features, class_column, classes, targets, image, vocabulary,
                                   class_weights)

std::string to_json(const Encoding& encoding) {
  return nlohmann::json(encoding).dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

/// Networks of images and frames take their extents from the shape, all others from the features.
void check_image(const Encoding& encoding, const std::string& file) {
  const ImageShape& image = encoding.image;
  std::size_t values = image.height;
  const bool fits =
      !__builtin_mul_overflow(values, image.width, &values) && !__builtin_mul_overflow(values, image.channels, &values);
  if (fits && (values == 0 || values == encoding.feature_count())) return;
  throw DataError(fmt::format("{}: images of {} x {} x {} values do not fit {} features", file, image.height,
                              image.width, image.channels, encoding.feature_count()));
}

/// What models from before these members mean.
void add_later_members(nlohmann::json& encoding) {
  for (const char* list : {"vocabulary", "class_weights"}) encoding.emplace(list, nlohmann::json::array());
  if (!encoding.contains("features") || !encoding["features"].is_array()) return;
  for (nlohmann::json& feature : encoding["features"]) {
    if (!feature.is_object() || !feature.contains("numeric") || !feature["numeric"].is_object()) continue;
    nlohmann::json& numeric = feature["numeric"];
    if (numeric.contains("offset")) numeric.emplace("mean", numeric["offset"]);
  }
}

}  // namespace

Encoding encoding_from_json(std::string_view text, const std::string& file) {
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (json.is_object()) add_later_members(json);
    auto encoding = json.get<Encoding>();
    check_image(encoding, file);
    if (!encoding.class_weights.empty() && encoding.class_weights.size() != encoding.classes.size())
      throw DataError(fmt::format("{}: {} weights do not fit {} classes", file, encoding.class_weights.size(),
                                  encoding.classes.size()));
    return encoding;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is not an encoding of features: {}", file, error.what()));
  }
}

}  // namespace moxie
