// moxie export: a trained model's prediction as a library with a plain C interface, with its weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include "runtime/aot/header.h"
#include "runtime/aot/interface.h"
#include "runtime/aot/library.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/export_model.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string run, folder;
  std::vector<std::string> targets;
};

/// One behind the other, in the order of their names.
std::string weights_file(const ExportedModel& model) {
  std::string bytes;
  for (const auto& [name, tensor] : model.weights)
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return bytes;
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) {
    std::string text;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < ' ' || byte == '"' || byte == '\\' || byte == '?')
        text += fmt::format("\\{:03o}", byte);
      else
        text += c;
    }
    quoted.push_back("\"" + text + "\"");
  }
  return fmt::format("{{{}}}", fmt::join(quoted, ", "));
}

/// Memory for what a model predicts besides: names of the numbers, and the place of each tensor among them.
std::string others_of(const ExportedModel& model) {
  std::string setters;
  std::vector<std::string> names;
  for (const auto& [name, columns] : model.others) {
    const std::string field = aot::c_name(name);
    setters += fmt::format("  a->{0}.data = others + {1}, a->{0}.count = {2};\n", field, names.size(), columns);
    for (std::int64_t k = 1; k <= columns; ++k) names.push_back(columns == 1 ? name : fmt::format("{}_{}", name, k));
  }
  const std::size_t count = names.size();
  if (names.empty()) {
    setters = "  (void)a, (void)others;\n";
    names.emplace_back();  // C has no empty arrays
  }
  return fmt::format(
      "enum {{ model_others = {} }};\nstatic const char *const model_other_names[] = {};\n\n"
      "static void model_set_others(model_arguments *a, float *others) {{\n{}}}\n\n",
      count, quoted_names(names), setters);
}

/// The place of every weight in the file, and what the columns are called.
std::string weights_header(const ExportedModel& model) {
  std::string setters;
  std::size_t next = 0;
  for (const auto& [name, tensor] : model.weights) {
    const std::size_t count = tensor.data.size() / sizeof(float);
    const std::string field = aot::c_name(name);
    setters += fmt::format("  a->{0}.data = weights + {1}, a->{0}.count = {2};\n", field, next, count);
    next += count;
  }
  return fmt::format(
      "/* Made by moxie: what weights.bin holds, as single-precision numbers of this machine's kind. */\n"
      "#ifndef MODEL_WEIGHTS_H\n#define MODEL_WEIGHTS_H\n\n#include \"model.h\"\n\n"
      "enum {{ model_weights = {}, model_features = {}, model_outputs = {} }};\n\n"
      "static const char *const model_feature_names[] = {};\nstatic const char *const model_output_names[] = {};\n\n"
      "static void model_set_weights(model_arguments *a, const float *weights) {{\n{}}}\n\n{}#endif\n",
      next, model.features.size(), model.outputs.size(), quoted_names(model.features), quoted_names(model.outputs),
      setters, others_of(model));
}

int export_run(const ExportOptions& options) {
  const SavedModel saved = load_model(fs::path(options.run) / "model.safetensors");
  const ExportedModel model = exported(saved);
  aot::LibraryRequest request{"model", {{"model", model.program}}, {}, {}};
  for (const std::string& target : options.targets) request.targets.push_back(aot::parse_target(target));
  const fs::path folder = options.folder;
  aot::write_library(aot::make_library(request), folder);
  const bool classes = saved.encoding.task == Task::Classification;
  const auto kind = !model.has_scores ? aot::ExportedKind::Others
                    : classes         ? aot::ExportedKind::Classes
                                      : aot::ExportedKind::Values;
  atomic_write(folder / "weights.bin", weights_file(model));
  atomic_write(folder / "model_weights.h", weights_header(model));
  if (const auto& words = saved.encoding.vocabulary; !words.empty())
    atomic_write(folder / "vocabulary.txt", fmt::format("{}\n", fmt::join(words, "\n")));
  atomic_write(folder / "predict.c", aot::prediction_example(kind));
  return 0;
}

}  // namespace

Work add_export(OptionParser& parser) {
  auto options = std::make_shared<ExportOptions>();
  parser.add_option("run", options->run, "the folder of a run of `moxie train`").required();
  parser.add_option("-o,--out", options->folder, "the folder of the library; it is made if it is not there").required();
  parser
      .add_option(
          "--target", options->targets,
          fmt::format("what the code is for, one or several of a kind: {}", fmt::join(aot::known_targets(), ", ")))
      .comma_separated()
      .required();
  return [options] { return export_run(*options); };
}

}  // namespace moxie
