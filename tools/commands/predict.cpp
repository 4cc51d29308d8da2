// moxie predict: what a trained model says of a data set, and how good that is.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/predict_calibration.h"
#include "tools/commands/predict_jacobian.h"
#include "tools/commands/train_model.h"
#include "tools/data/npy.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct PredictOptions {
  std::string run, data, data_dir, out, diagnose;
  DeviceChoice device;
  bool json = false;
};

double entropy(std::span<const double> probability) {
  double sum = 0;
  for (const double p : probability) sum -= p > 0 ? p * std::log(p) : 0;
  return sum;
}

std::span<const double> row_of(const std::vector<double>& values, std::size_t row, std::size_t columns) {
  return {values.data() + row * columns, columns};
}

/// A field of a CSV file; quoted where it must be.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string classes_csv(const Prediction& p, const Encoding& encoding) {
  std::string text = field(encoding.class_column) + ",probability,entropy";
  for (const std::string& name : encoding.classes) text += ",p_" + field(name);
  for (std::size_t row = 0; row < p.rows; ++row) {
    const auto probability = row_of(p.probability, row, p.columns);
    const std::size_t top = top_class(p, row);
    text += fmt::format("\n{},{:.6g},{:.6g}", field(encoding.classes[top]), probability[top], entropy(probability));
    for (const double value : probability) text += fmt::format(",{:.6g}", value);
  }
  return text + "\n";
}

std::string values_csv(const Prediction& p, const Encoding& encoding) {
  constexpr double kHalfWidth95 = 1.9599639845400545;
  std::string text;
  for (const TargetEncoding& target : encoding.targets) {
    const std::string name = field(target.column);
    text += fmt::format("{}{},{}_sd,{}_low95,{}_high95", text.empty() ? "" : ",", name, name, name, name);
  }
  for (std::size_t i = 0; i < p.mean.size(); ++i) {
    const double sd = std::sqrt(p.variance[i]);
    text += fmt::format("{}{:.8g},{:.6g},{:.8g},{:.8g}", i % p.columns == 0 ? "\n" : ",", p.mean[i], sd,
                        p.mean[i] - kHalfWidth95 * sd, p.mean[i] + kHalfWidth95 * sd);
  }
  return text + "\n";
}

std::string arrays_npz(const Prediction& p) {
  const std::vector<std::size_t> shape = {p.rows, p.columns};
  NpyArrays arrays;
  if (p.task == Task::Classification) {
    arrays["probability"] = make_npy_array<double>(shape, p.probability);
  } else {
    arrays["mean"] = make_npy_array<double>(shape, p.mean);
    arrays["variance"] = make_npy_array<double>(shape, p.variance);
  }
  return print_npz(arrays);
}

void write(const fs::path& file, const Prediction& p, const Encoding& encoding) {
  const bool classes = p.task == Task::Classification;
  if (file.extension() == ".npz") {
    atomic_write(file, arrays_npz(p));
  } else if (file.extension() == ".csv") {
    atomic_write(file, classes ? classes_csv(p, encoding) : values_csv(p, encoding));
  } else {
    throw UsageError(fmt::format("--out {}: predictions are written as .csv or .npz", file.string()));
  }
}

Json calibration_json(const Prediction& prediction, const Samples& samples, const Encoding& encoding) {
  constexpr std::size_t kBins = 20;
  Json json;
  for (const CalibrationPoint& point : reliability(prediction, samples.y, encoding))
    json["reliability"].push_back({point.promised, point.found, point.count});
  if (prediction.task == Task::Regression)
    json["pit"] = histogram(probability_integral_transform(prediction, samples.y, encoding), kBins);
  return json;
}

void print_scores(const Prediction& prediction, const Samples& samples, const Encoding& encoding, bool json) {
  const Scores scores = score(prediction, samples.y, encoding);
  if (json) {
    Json result = {{"samples", prediction.rows}};
    for (const Score& s : scores) result[s.name] = s.value;
    result.update(calibration_json(prediction, samples, encoding));
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{:<12} {}\n", "samples", prediction.rows);
  for (const Score& s : scores) fmt::print("{:<12} {:.6g}\n", s.name, s.value);
}

/// The spectrum of the Jacobian of the output's mean. Deep networks that lose their input show ever smaller ratios.
void diagnose_jacobian(const SavedModel& model, const Samples& samples, const std::shared_ptr<Device>& device,
                       bool json) {
  const Program program = make_network(model.config, model.encoding).predict;
  const char* output = model.encoding.task == Task::Classification ? "logit_mean" : "mean";
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
    fmt::print("{:>5} {:>12.4g} {:>12.4g} {:>12.4g}\n", k + 1, lines[k].low, lines[k].median, lines[k].high);
}

/// A model can come from somebody else and name any file. Throws UsageError for one that only the model names, and says
/// which option opens it.
void require_named_by_user(const PredictOptions& options, const TrainConfig& config) {
  constexpr const char* kRule = "predict opens nothing that only a model names";
  if (options.data.empty() && names_file(config.data))
    throw UsageError(fmt::format("{0} was trained on {1}, and {2}; to read that file, add --data '{1}'", options.run,
                                 config.data, kRule));
  const std::string& data = options.data.empty() ? config.data : options.data;
  if (options.data_dir.empty() && reads_data_folder(data) && config.data_dir != TrainConfig().data_dir)
    throw UsageError(
        fmt::format("{0} was trained on files in the folder {1}, and {2}; to read {3} there, add --data-dir '{1}'",
                    options.run, config.data_dir, kRule, data));
}

int predict(const PredictOptions& options) {
  const SavedModel model = load_model(fs::path(options.run) / "model.safetensors");
  require_named_by_user(options, model.config);
  const std::string data = options.data.empty() ? model.config.data : options.data;
  LoadOptions loading = load_options(model.config);
  loading.encoding = &model.encoding;
  if (!options.data_dir.empty()) loading.data_dir = options.data_dir;
  loading.test_file.clear();  // named by the model, and for training only
  const Samples samples = load_for_prediction(data, loading);
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
  const Prediction prediction = evaluator.predict(rows_of(samples), model.variance_scale);
  if (!options.out.empty()) write(options.out, prediction, model.encoding);
  if (samples.y.columns > 0) {
    print_scores(prediction, samples, model.encoding, options.json);
  } else if (options.out.empty()) {
    throw UsageError(
        fmt::format("{} has no targets to compare with: name a file for the predictions, --out FILE.csv", data));
  }
  return 0;
}

}  // namespace

Work add_predict(OptionParser& parser) {
  auto options = std::make_shared<PredictOptions>();
  parser.add_option("run", options->run, "the folder of a run of `moxie train`").required();
  parser.add_option("--data", options->data,
                    "the rows: a file as --data of `moxie train` names it (csv:FILE, ...), or the test rows of a set; "
                    "those of the run's set if not given");
  parser.add_option("--data-dir", options->data_dir,
                    "where the data sets lie; needed if the run had them elsewhere than in data/");
  parser.add_option("--out", options->out, "where the predictions go: FILE.csv or FILE.npz");
  parser
      .add_option("--diagnose", options->diagnose,
                  "jacobian: the singular values of the Jacobian of the output's mean, instead of scores")
      .one_of({"jacobian"});
  parser.add_flag("--json", options->json, "print the scores as JSON, with the points of the calibration plots");
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  return [options] { return predict(*options); };
}

}  // namespace moxie
