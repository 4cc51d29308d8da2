// moxie predict: what a trained model says of a data set, and how good that is.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "learn/chosen_rows.h"
#include "learn/jacobians.h"
#include "learn/trained_model.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/kept_files.h"
#include "tools/commands/predict_print.h"
#include "tools/commands/predict_write.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct PredictOptions {
  std::string run, out, diagnose;
  std::vector<double> levels = {0.95};
  RowChoice rows;
  DeviceChoice device;
  bool json = false;
};

std::vector<std::size_t> rows_with_targets(const Samples& samples) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < samples.rows(); ++row) {
    const auto targets = samples.y.row(row);
    if (!targets.empty() && std::ranges::none_of(targets, [](float value) { return std::isnan(value); }))
      rows.push_back(row);
  }
  return rows;
}

/// The spectrum of the Jacobian of the output's mean. Deep networks that lose their input show ever smaller ratios.
void diagnose_jacobian(const SavedModel& model, const Samples& samples, const std::shared_ptr<Device>& device,
                       bool json) {
  const Program program = make_network(model.config, model.encoding).predict;
  const bool classes = model.encoding.task == Task::Classification;
  const char* output = !classes ? "mean" : program.find_definition("logit_mean") ? "logit_mean" : "probability";
  if (!program.find_definition(output))
    throw UsageError(
        fmt::format("--diagnose jacobian is about the prediction {}, which the model does not have", output));
  const SampleRows rows = rows_of(samples);
  const std::size_t outputs = model.encoding.target_count(), features = samples.x.columns;
  const std::vector<double> all = jacobians(program, output, model.parameters, rows, device);
  std::vector<double> values;
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const auto* first = all.data() + row * outputs * features;
    const std::vector<double> of_row = singular_values({first, first + outputs * features}, outputs, features);
    values.insert(values.end(), of_row.begin(), of_row.end());
  }
  const std::vector<SpectrumLine> lines = spectrum(values, std::min(outputs, features));
  if (json) {
    Json result = {{"samples", rows.rows}};
    for (const SpectrumLine& line : lines) result["jacobian"].push_back({line.low, line.median, line.high});
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print(
      "singular values of the Jacobian of {} over {} samples; from the second on relative to the first\n{:>5} {:>12} "
      "{:>12} {:>12}\n",
      output, rows.rows, "", "10 %", "median", "90 %");
  for (std::size_t k = 0; k < lines.size(); ++k)
    fmt::print("{:>5} {:>12} {:>12} {:>12}\n", k + 1, score_text(lines[k].low), score_text(lines[k].median),
               score_text(lines[k].high));
}

Unexpected unexpected_named(const std::string& name) {
  return name == "skip" ? Unexpected::Skip : name == "unknown" ? Unexpected::Unknown : Unexpected::Error;
}

/// What is wrong with the text of a level, or nothing.
std::string not_a_probability(const std::string& text) {
  double level = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
  const bool right = error == std::errc() && end == text.data() + text.size() && level > 0 && level < 1;
  return right ? "" : fmt::format("{} is not a probability between 0 and 1", text);
}

int predict(const PredictOptions& options) {
  const SavedModel model = load_model(fs::path(options.run) / "model.safetensors");
  const std::string& data = options.rows.data.empty() ? model.config.data : options.rows.data;
  if (names_file(data)) keep_file("--out", options.out, data.substr(data.find(':') + 1));
  const ChosenRows rows = choose_rows(options.rows, model, options.run);
  const Samples& samples = rows.samples;
  check_features(make_network(model.config, model.encoding), samples.x, model.encoding);
  const std::shared_ptr<Device> device = open_chosen_device(options.device);
  if (!options.diagnose.empty()) {
    if (!model.encoding.vocabulary.empty())
      throw UsageError("--diagnose jacobian: the network reads numbers of words, which have no derivatives");
    diagnose_jacobian(model, samples, device, options.json);
    return 0;
  }
  Evaluator evaluator(model.config, model.encoding, device);
  evaluator.set_parameters(model.parameters);
  Prediction prediction = evaluator.predict(rows_of(samples), model.variance_scale);
  if (!is_own_model(model.config)) prediction.others.clear();  // intermediate values of moxie's own networks
  if (!options.out.empty()) write_predictions(options.out, {prediction, samples, model.encoding, options.levels});
  if (const std::vector<std::size_t> known = rows_with_targets(samples); !known.empty()) {
    const bool all = known.size() == samples.rows();
    const ChosenRows scored =
        all ? rows
            : ChosenRows{select_rows(samples, known),
                         fmt::format("{}; {} of them have targets", rows.description, known.size())};
    print_scores(
        {all ? prediction : prediction.select(known), scored, model}, [&] { return evaluator.loss(scored.samples); },
        options.json);
  } else if (options.out.empty()) {
    throw UsageError(fmt::format("{} has no targets to compare with: name a file for the predictions, --out FILE.csv",
                                 options.rows.data));
  }
  return 0;
}

}  // namespace

Work add_predict(OptionParser& parser) {
  auto options = std::make_shared<PredictOptions>();
  parser.add_option("run", options->run, "the folder of a run of `moxie train`").required();
  parser.add_option("--data", options->rows.data,
                    "the rows: a file as --data of `moxie train` names it (csv:FILE, ...), or a set; the run's set if "
                    "not given");
  parser
      .add_option("--rows", options->rows.rows,
                  "which rows of the set that the run was trained on: test, validation, train, or all of a file; test "
                  "if not given. Of another file all rows are taken")
      .one_of({"test", "validation", "train", "all"});
  parser.add_option("--data-dir", options->rows.data_dir,
                    "where the data sets lie; needed if the run had them elsewhere than in data/");
  parser
      .add_option("--keep", options->rows.kept,
                  "columns of the rows, by name or number, that go to the predictions as they are: keys, for example")
      .comma_separated();
  parser
      .add_option_function(
          "--unexpected", [options](const std::string& text) { options->rows.unexpected = unexpected_named(text); },
          "categories that training did not see, and missing values where it had none: error (the default), unknown "
          "(no category, the mean of the training rows), or skip (the row is left out, and counted)")
      .one_of({"error", "unknown", "skip"});
  parser
      .add_option("--levels", options->levels,
                  "probabilities of the central intervals that are written, such as 0.5,0.9,0.99")
      .comma_separated()
      .show_default()
      .check(not_a_probability);
  parser.add_option("--out", options->out, "where the predictions go: FILE.csv or FILE.npz");
  parser
      .add_option("--diagnose", options->diagnose,
                  "jacobian: the singular values of the Jacobian of the output's mean, instead of scores")
      .one_of({"jacobian"});
  parser.add_flag("--json", options->json, "print the scores as JSON, with the points of the calibration plots");
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  parser.set_footer(
      "Examples:\n"
      "  moxie predict run --data csv:table.csv\n"
      "  moxie predict run --data csv:new.csv --keep id --out prices.csv --levels 0.5,0.95\n");
  return [options] { return predict(*options); };
}

}  // namespace moxie
