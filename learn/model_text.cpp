#include "learn/model_text.h"

#include <algorithm>
#include <optional>

#include "compiler/text/lexer.h"
#include "ops/formula_file.h"

namespace moxie {
namespace {

/// Where the text declares the name, which stands before it is used; without one, the text's last statement.
std::size_t offset_of(const SourceText& source, const std::string& name) {
  std::size_t statement = 0;
  bool at_start = true;
  for (const Token& token : tokenize(source)) {
    if (token.kind == TokenKind::End) break;
    if (token.kind == TokenKind::Name && !name.empty() && token.text == name) return token.offset;
    if (at_start && token.kind != TokenKind::Newline) statement = token.offset;
    at_start = token.kind == TokenKind::Newline;
  }
  return statement;
}

Program parse_formula(const TrainConfig& config) { return parse(config.formula, config.model); }

}  // namespace

ModelText read_model(TrainConfig& config, bool precision_chosen, const std::vector<std::string>& folders) {
  ModelText model{config.model, read_text(config.model)};
  const Program program = read_program(model.file, folders);
  try {
    check_model(program);
  } catch (const ModelError& error) {
    fail_in_text(error, model);
  }
  config.formula = print(program);
  if (!precision_chosen) config.precision = to_string(program.precision);
  if (config.task.empty() && names_file(config.data) && task_of(program))
    config.task = *task_of(program) == Task::Classification ? "classify" : "regress";
  return model;
}

void fail_in_text(const ModelError& error, const ModelText& model) {
  const SourceText source(model.text, model.file);
  source.fail<TypeError>(offset_of(source, error.name()), error.message(), error.hint());
}

SampleShape sample_shape(const Encoding& encoding) {
  SampleShape shape;
  shape.task = encoding.task;
  shape.features = static_cast<std::int64_t>(encoding.feature_count());
  shape.targets = static_cast<std::int64_t>(encoding.target_count());
  const ImageShape& image = encoding.image;
  // Sequences of frames have one frame behind the other.
  if (image.height > 0 && encoding.task == Task::Classification) {
    for (const std::size_t extent : {image.height, image.width, image.channels})
      shape.image.push_back(static_cast<std::int64_t>(extent));
  }
  return shape;
}

Network make_own_network(const TrainConfig& config, const Encoding& encoding) {
  const Program program = parse_formula(config);
  return model_network(program, sample_shape(encoding), parse_dims(config.dims, program));
}

}  // namespace moxie
