#include "tools/commands/predict_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "compiler/arithmetic/special_functions.h"
#include "compiler/support/nan.h"
#include "data/npy.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

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

/// A column of the file: its name, and what it says of a row.
struct OutputColumn {
  std::string name;
  std::function<std::string(std::size_t row)> cell;
};
using OutputColumns = std::vector<OutputColumn>;

/// A number with that many digits, "nan" where a model predicts none.
template <int kDigits>
std::string digits(double value) {
  return fmt::format("{:.{}g}", without_nan_sign(value), kDigits);
}

void append_classes(OutputColumns& columns, const Prediction& p, const Encoding& encoding) {
  const auto probability = [&p](std::size_t row) { return row_of(p.probability, row, p.columns); };
  columns.push_back(
      {encoding.class_column, [&](std::size_t row) { return field(encoding.classes[top_class(p, row)]); }});
  columns.push_back(
      {"probability", [&p, probability](std::size_t row) { return digits<6>(probability(row)[top_class(p, row)]); }});
  columns.push_back({"entropy", [probability](std::size_t row) { return digits<6>(entropy(probability(row))); }});
  for (std::size_t c = 0; c < p.columns; ++c)
    columns.push_back(
        {"p_" + encoding.classes[c], [probability, c](std::size_t row) { return digits<6>(probability(row)[c]); }});
}

/// The percentage in a column's name: low95, low99.9.
std::string percent(double level) { return fmt::format("{:.6g}", 100 * level); }

void append_values(OutputColumns& columns, const WrittenPredictions& written) {
  const Prediction& p = written.prediction;
  for (std::size_t k = 0; k < written.encoding.targets.size(); ++k) {
    const std::string& name = written.encoding.targets[k].column;
    const auto mean = [&p, k](std::size_t row) { return p.mean[row * p.columns + k]; };
    const auto sd = [&p, k](std::size_t row) { return std::sqrt(p.variance[row * p.columns + k]); };
    const auto bound = [mean, sd](double width) {
      return [=](std::size_t row) { return digits<8>(mean(row) + width * sd(row)); };
    };
    columns.push_back({name, [mean](std::size_t row) { return digits<8>(mean(row)); }});
    columns.push_back({name + "_sd", [sd](std::size_t row) { return digits<6>(sd(row)); }});
    if (!p.aleatoric.empty()) {
      const auto noise = [&p, k](std::size_t row) { return p.aleatoric[row * p.columns + k]; };
      columns.push_back(
          {name + "_aleatoric_sd", [noise](std::size_t row) { return digits<6>(std::sqrt(noise(row))); }});
      columns.push_back({name + "_epistemic_sd", [noise, sd](std::size_t row) {
                           const double rest = sd(row) * sd(row) - noise(row);
                           return digits<6>(std::sqrt(std::max(0.0, rest)));
                         }});
    }
    for (const double level : written.levels) {
      const double width = interval_half_width(level);
      columns.push_back({name + "_low" + percent(level), bound(-width)});
      columns.push_back({name + "_high" + percent(level), bound(width)});
    }
  }
}

void append_labels(OutputColumns& columns, const RowLabels& labels) {
  columns.push_back({"row", [&labels](std::size_t row) {
                       return fmt::format("{}", labels.numbers.empty() ? row + 1 : labels.numbers[row]);
                     }});
  for (const auto& [name, texts] : labels.kept)
    columns.push_back({name, [&texts = texts](std::size_t row) { return field(texts[row]); }});
}

/// Empty where the target of a row is not known.
void append_targets(OutputColumns& columns, const Matrix& targets, const Encoding& encoding) {
  if (targets.columns == 0) return;
  const auto known = [&targets](std::size_t row) { return !std::isnan(targets(row, 0)); };
  if (encoding.task == Task::Classification) {
    columns.push_back({encoding.class_column + "_true", [&, known](std::size_t row) {
                         const auto hot = targets.row(row);
                         const auto at = std::ranges::max_element(hot) - hot.begin();
                         return known(row) ? field(encoding.classes[static_cast<std::size_t>(at)]) : std::string();
                       }});
    return;
  }
  for (std::size_t k = 0; k < encoding.targets.size(); ++k)
    columns.push_back({encoding.targets[k].column + "_true", [&, k](std::size_t row) {
                         const TargetEncoding& target = encoding.targets[k];
                         const double value = targets(row, k) * target.sd + target.mean;
                         return std::isnan(value) ? std::string() : fmt::format("{:.7g}", value);
                       }});
}

void append_others(OutputColumns& columns, const Prediction& p) {
  for (const auto& [name, values] : p.others) {
    for (std::size_t k = 0; k < values.columns; ++k)
      columns.push_back(
          {values.columns == 1 ? name : fmt::format("{}_{}", name, k + 1), [&values = values, k](std::size_t row) {
             return digits<8>(row_of(values.values, row, values.columns)[k]);
           }});
  }
}

std::string print_csv(const WrittenPredictions& written) {
  const Prediction& p = written.prediction;
  OutputColumns columns;
  append_labels(columns, written.samples.labels);
  if (!p.probability.empty()) append_classes(columns, p, written.encoding);
  if (!p.mean.empty()) append_values(columns, written);
  append_others(columns, p);
  append_targets(columns, written.samples.y, written.encoding);
  std::string text;
  for (const OutputColumn& column : columns) text += (text.empty() ? "" : ",") + field(column.name);
  for (std::size_t row = 0; row < p.rows; ++row) {
    char separator = '\n';
    for (const OutputColumn& column : columns) {
      text += separator + column.cell(row);
      separator = ',';
    }
  }
  return text + "\n";
}

std::string arrays_npz(const Prediction& p) {
  const std::vector<std::size_t> shape = {p.rows, p.columns};
  NpyArrays arrays;
  if (!p.probability.empty()) arrays["probability"] = make_npy_array<double>(shape, p.probability);
  if (!p.mean.empty()) {
    arrays["mean"] = make_npy_array<double>(shape, p.mean);
    arrays["variance"] = make_npy_array<double>(shape, p.variance);
    if (!p.aleatoric.empty()) arrays["aleatoric"] = make_npy_array<double>(shape, p.aleatoric);
  }
  for (const auto& [name, values] : p.others)
    arrays[name] = make_npy_array<double>({p.rows, values.columns}, values.values);
  return print_npz(arrays);
}

}  // namespace

void write_predictions(const std::filesystem::path& file, const WrittenPredictions& written) {
  if (file.extension() == ".npz") {
    atomic_write(file, arrays_npz(written.prediction));
  } else if (file.extension() == ".csv") {
    atomic_write(file, print_csv(written));
  } else {
    throw UsageError(fmt::format("--out {}: predictions are written as .csv or .npz", file.string()));
  }
}

double interval_half_width(double probability) { return std::numbers::sqrt2 * erfinv(probability); }

}  // namespace moxie
