#include "data/images.h"

#include <fmt/format.h>

namespace moxie {

Encoding image_encoding(const ImageShape& shape, const std::vector<NumericEncoding>& channels, std::string class_column,
                        std::vector<std::string> classes) {
  Encoding encoding;
  encoding.image = shape;
  encoding.class_column = std::move(class_column);
  encoding.classes = std::move(classes);
  const std::size_t pixels = shape.height * shape.width;
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < shape.channels; ++c) {
      std::string name = fmt::format("pixel {},{}", i / shape.width, i % shape.width);
      if (shape.channels > 1) name += fmt::format(",{}", c);
      encoding.features.push_back({std::move(name), ColumnKind::Numeric, channels[c], false, {}});
    }
  }
  return encoding;
}

}  // namespace moxie
