#include "tools/commands/predict_write.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/data/npy.h"

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

std::string class_names(const Encoding& encoding) {
  std::string text = field(encoding.class_column) + ",probability,entropy";
  for (const std::string& name : encoding.classes) text += ",p_" + field(name);
  return text;
}

std::string classes_of(const Prediction& p, const Encoding& encoding, std::size_t row) {
  const auto probability = row_of(p.probability, row, p.columns);
  const std::size_t top = top_class(p, row);
  std::string text =
      fmt::format("{},{:.6g},{:.6g}", field(encoding.classes[top]), probability[top], entropy(probability));
  for (const double value : probability) text += fmt::format(",{:.6g}", value);
  return text;
}

std::string value_names(const Encoding& encoding) {
  std::string text;
  for (const TargetEncoding& target : encoding.targets) {
    const std::string name = field(target.column);
    text += fmt::format("{}{},{}_sd,{}_low95,{}_high95", text.empty() ? "" : ",", name, name, name, name);
  }
  return text;
}

std::string values_of(const Prediction& p, std::size_t row) {
  constexpr double kHalfWidth95 = 1.9599639845400545;
  std::string text;
  for (std::size_t i = row * p.columns; i < (row + 1) * p.columns; ++i) {
    const double sd = std::sqrt(p.variance[i]);
    text += fmt::format("{}{:.8g},{:.6g},{:.8g},{:.8g}", text.empty() ? "" : ",", p.mean[i], sd,
                        p.mean[i] - kHalfWidth95 * sd, p.mean[i] + kHalfWidth95 * sd);
  }
  return text;
}

std::string other_names(const Prediction& p) {
  std::string text;
  for (const auto& [name, values] : p.others) {
    for (std::size_t k = 0; k < values.columns; ++k)
      text += values.columns == 1 ? "," + name : fmt::format(",{}_{}", name, k + 1);
  }
  return text;
}

std::string others_of(const Prediction& p, std::size_t row) {
  std::string text;
  for (const auto& [name, values] : p.others) {
    for (const double value : row_of(values.values, row, values.columns)) text += fmt::format(",{:.8g}", value);
  }
  return text;
}

std::string print_csv(const Prediction& p, const Encoding& encoding) {
  const bool classes = p.task == Task::Classification;
  std::string text = (classes ? class_names(encoding) : value_names(encoding)) + other_names(p) + "\n";
  for (std::size_t row = 0; row < p.rows; ++row)
    text += (classes ? classes_of(p, encoding, row) : values_of(p, row)) + others_of(p, row) + "\n";
  return text;
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
  for (const auto& [name, values] : p.others)
    arrays[name] = make_npy_array<double>({p.rows, values.columns}, values.values);
  return print_npz(arrays);
}

}  // namespace

void write_predictions(const std::filesystem::path& file, const Prediction& prediction, const Encoding& encoding) {
  if (file.extension() == ".npz") {
    atomic_write(file, arrays_npz(prediction));
  } else if (file.extension() == ".csv") {
    atomic_write(file, print_csv(prediction, encoding));
  } else {
    throw UsageError(fmt::format("--out {}: predictions are written as .csv or .npz", file.string()));
  }
}

}  // namespace moxie
