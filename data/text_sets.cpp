#include <fmt/format.h>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/loaders.h"
#include "data/synthetic.h"
#include "data/texts.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

Texts read_texts(const fs::path& file) { return parse_texts(read_whole_file(file), file.string()); }

Dataset make_text_dataset(std::string name, const Texts& texts, const RowSplit& rows, const LoadOptions& options) {
  Encoding encoding = options.encoding ? *options.encoding : fit_text_encoding(texts, options.text, rows.train);
  const Samples all{encode_texts(texts, encoding), encode_labels(texts, encoding)};
  return split_samples(std::move(name), all, std::move(encoding), rows, options.validation_share, options.seed);
}

void check_options(const std::string& name, const LoadOptions& options) {
  if (!options.targets.empty() || !options.ignored.empty() || !options.categorical.empty() || !options.unscaled.empty())
    throw DataError(fmt::format(
        "{}: target, ignored, categorical and unscaled columns are for csv:FILE, npz:FILE and safetensors:FILE only",
        name));
  if (options.task == Task::Regression)
    throw DataError(fmt::format("{}: labels are classes, so the task can only be to classify", name));
}

void require_vocabulary(const std::string& name, const LoadOptions& options) {
  if (options.encoding && options.encoding->vocabulary.empty())
    throw DataError(fmt::format("{}: the model was not trained on texts", name));
}

}  // namespace

Dataset load_text(const fs::path& file, const LoadOptions& options) {
  const std::string name = "text:" + file.string();
  check_options(name, options);
  Texts texts = read_texts(file);
  const std::size_t first = texts.rows.size();
  if (options.test_file.empty()) return make_text_dataset(name, texts, default_split(first, options.split), options);
  const Texts test = read_texts(options.test_file);
  texts.rows.insert(texts.rows.end(), test.rows.begin(), test.rows.end());
  return make_text_dataset(name, texts, ordered_split(texts.rows.size(), first), options);
}

Samples load_text_for_prediction(const fs::path& file, const LoadOptions& options) {
  require_vocabulary("text:" + file.string(), options);
  const std::string bytes = read_whole_file(file);
  const bool labelled = bytes.substr(0, bytes.find('\n')).find('\t') != bytes.npos;
  const Texts texts = parse_texts(bytes, file.string(), labelled);
  return {encode_texts(texts, *options.encoding),
          labelled ? encode_labels(texts, *options.encoding) : Matrix(texts.rows.size(), 0)};
}

Dataset load_synthetic_text(const Preset& preset, const LoadOptions& options) {
  require_vocabulary(std::string(preset.name), options);
  const Texts texts = synthetic_reviews(options.split);
  return make_text_dataset(std::string(preset.name), texts, default_split(texts.rows.size(), options.split), options);
}

}  // namespace moxie
