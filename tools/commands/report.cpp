#include "tools/commands/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/commands/report_frames.h"
#include "tools/commands/report_predictions.h"
#include "tools/commands/train_report.h"

namespace moxie {
namespace {

using SortedJson = nlohmann::json;
using Kind = Series::Kind;

constexpr std::size_t kUnitsShown = 12;
constexpr std::size_t kEpochsShown = 400;

constexpr const char* kStyle = R"css(
:root{--ink:#1b1f24;--soft:#667;--line:#d8dbe0;--page:#fff;--c0:#2266bb;--c1:#cc5522;--c2:#228855;--c3:#888}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#9aa2ad;--line:#353a42;--page:#15181c;--c0:#6aa9ff;--c1:#ff9a66;--c2:#66cc99;--c3:#999}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:75rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.2em 0}h2{font-size:1.15rem;margin:1.6em 0 .5em}
p{margin:.4em 0;color:var(--soft)}
.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr))}
.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,10rem),1fr))}.small text{font-size:14px}
svg{width:100%;height:auto;display:block}svg svg{width:auto}
.scroll{overflow-x:auto}
table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:right;border-bottom:1px solid var(--line)}
td:first-child,th:first-child{text-align:left}
th.side{font-weight:400;text-align:left}td.hit{font-weight:600}
.warning{border-left:.25rem solid var(--c1);padding-left:.6rem;color:var(--ink)}
.frames{width:100%;margin-bottom:1rem}.frames td{border:0}.frames td:first-child{width:6rem;color:var(--soft)}
.pixels{width:100%;display:block;image-rendering:pixelated}
text{font:12px system-ui,sans-serif;fill:var(--ink)}
.title{font-weight:600}.tick,.label{fill:var(--soft)}.middle{text-anchor:middle}.end{text-anchor:end}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--soft);fill:none}
.line{fill:none;stroke-width:1.8}.band{opacity:.2;stroke:none}.bar{opacity:.6}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3);stroke-dasharray:4 4}
.band.c0,.bar.c0,.point.c0,.f0{fill:var(--c0)}.band.c1,.bar.c1,.point.c1,.f1{fill:var(--c1)}.point.c2,.f2{fill:var(--c2)}.f3{fill:var(--c3)}
)css";

std::vector<SortedJson> epochs_of(const std::string& metrics) {
  std::vector<SortedJson> epochs;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    SortedJson json = SortedJson::parse(line, nullptr, false);
    if (json.is_object() && !json.contains("final")) epochs.push_back(std::move(json));
  }
  if (epochs.size() <= kEpochsShown) return epochs;
  std::vector<SortedJson> some;
  for (std::size_t k = 0; k < kEpochsShown; ++k) some.push_back(epochs[k * epochs.size() / kEpochsShown]);
  some.push_back(epochs.back());
  return some;
}

Series curve(const std::vector<SortedJson>& epochs, const char* member, const char* name, std::size_t colour) {
  Series series{Kind::Line, name, colour, {}, {}};
  for (const SortedJson& epoch : epochs) {
    if (!epoch.contains(member) || !epoch[member].is_number()) continue;
    series.x.push_back(epoch.value("epoch", 0.0));
    series.y.push_back(epoch[member].get<double>());
  }
  return series;
}

/// From the smallest value to where all but the first few epochs lie: a loss may start very high.
std::pair<double, double> settled_limits(const std::vector<Series>& curves) {
  std::vector<double> values;
  for (const Series& curve : curves) {
    for (const double value : curve.y) {
      if (std::isfinite(value)) values.push_back(value);
    }
  }
  if (values.size() < 40) return {0, 0};
  std::ranges::sort(values);
  return {values.front(), values[values.size() * 97 / 100]};
}

Chart function_chart(const std::map<std::string, RowValues>& functions, const std::string& layer, std::size_t unit,
                     const std::vector<double>& activations) {
  const RowValues& mean = functions.at(layer + ".mean");
  const RowValues& spread = functions.at(layer + ".spread");
  const std::size_t units = mean.columns;
  Chart chart{fmt::format("{}, unit {}", layer, unit + 1), "activation", "", {}, false, 240, 170};
  Series line{Kind::Line, "", 0, activations, {}};
  Series band{Kind::Band, "", 0, activations, {}, {}};
  for (std::size_t i = 0; i < activations.size(); ++i) {
    const double value = mean.values[i * units + unit], sd = std::sqrt(spread.values[i * units + unit]);
    line.y.push_back(value);
    band.y.push_back(value - sd);
    band.upper.push_back(value + sd);
  }
  Series points{Kind::Points, "", 1, {}, {}, {}};
  const std::vector<double>& at = functions.at(layer + ".points").values;
  for (std::size_t i = unit; i < at.size(); i += units) {
    const double target = functions.at(layer + ".targets").values[i];
    points.x.push_back(at[i]);
    points.y.push_back(target);
    points.upper.push_back(target + std::sqrt(functions.at(layer + ".target_variance").values[i]));
  }
  chart.series = {band, points, line};
  return chart;
}

std::string grid(const std::vector<Chart>& charts, const char* kind) {
  std::string text = fmt::format("<div class=\"charts{}\">\n", kind);
  for (const Chart& chart : charts) text += svg(chart);
  return text + "</div>\n";
}

std::string section(const char* title, const char* explanation, const std::vector<Chart>& charts,
                    const char* kind = "") {
  if (charts.empty()) return {};
  return fmt::format("<h2>{}</h2>\n<p>{}</p>\n{}", title, explanation, grid(charts, kind));
}

std::string cell(double value) { return fmt::format("<td>{}</td>", score_text(value)); }

/// The unit of all targets, for a score that has it: the others are fractions, or logarithms of densities.
std::string unit_of_score(const std::string& score, const std::vector<std::string>& units) {
  constexpr std::array kInUnits = {"rmse", "mae", "crps", "sharpness", "aleatoric_sd", "epistemic_sd"};
  const bool has_unit = std::ranges::find(kInUnits, score) != kInUnits.end();
  const bool is_one = std::ranges::adjacent_find(units, std::ranges::not_equal_to()) == units.end();
  return has_unit && is_one ? unit_label(units, 0) : "";
}

/// Of the network, and of a constant where that has the same scores.
std::string score_table(const FinalReport& report, const Dataset& data, const std::vector<std::string>& units) {
  const bool compares = !report.constant.empty() && report.constant.front().name == report.test.scores.front().name;
  const auto of_constant = [&](const std::string& name) {
    const auto found = std::ranges::find(report.constant, name, &Score::name);
    return cell(found == report.constant.end() ? std::nan("") : found->value);
  };
  std::string text = fmt::format(
      "<div class=\"scroll\"><table><tr><th>score</th><th>training</th><th>validation</th><th>test</th>{}</tr>\n",
      compares ? "<th>test, constant</th>" : "");
  for (std::size_t k = 0; k < report.test.scores.size(); ++k) {
    text += fmt::format("<tr><td>{}</td>{}{}{}{}</tr>\n",
                        escaped(report.test.scores[k].name + unit_of_score(report.test.scores[k].name, units)),
                        cell(report.train.scores[k].value), cell(report.validation.scores[k].value),
                        cell(report.test.scores[k].value), compares ? of_constant(report.test.scores[k].name) : "");
  }
  text += "</table></div>\n";
  return compares ? text + fmt::format("<p>The constant prediction: {}.</p>\n", escaped(describe_constant(data)))
                  : text;
}

std::string settings_table(const SortedJson& settings) {
  std::string rows;
  for (const auto& [name, value] : settings.items())
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name),
                        escaped(value.is_string() ? value.get<std::string>() : value.dump()));
  return fmt::format("<div class=\"scroll\"><table>{}</table></div>", rows);
}

/// Those that differ from the defaults first.
std::string settings(const TrainConfig& config) {
  const SortedJson json = SortedJson::parse(to_json(config)), defaults = SortedJson::parse(to_json(TrainConfig()));
  SortedJson chosen = SortedJson::object(), usual = SortedJson::object();
  for (const auto& [name, value] : json.items()) {
    if (name == "formula") continue;
    const bool differs = name == "model" || name == "data" || !defaults.contains(name) || defaults[name] != value;
    (differs ? chosen : usual)[name] = value;
  }
  return fmt::format(
      "<h2>Settings</h2>\n{}\n<details><summary>Settings that have their default value</summary>{}</details>\n",
      settings_table(chosen), settings_table(usual));
}

/// The text of a model of the user's own.
std::string formula(const TrainConfig& config) {
  if (config.formula.empty()) return {};
  return fmt::format("<h2>Model</h2>\n<div class=\"scroll\"><pre>{}</pre></div>\n", escaped(config.formula));
}

std::string frames(const Prediction& prediction, const Samples& samples, const Encoding& encoding) {
  return "<h2>Frames</h2>\n<p>The first test sequences, the mean that is predicted for them, and its standard "
         "deviation: the brighter, the less certain.</p>\n" +
         frame_tables(prediction, samples, encoding);
}

/// What was learnt from what, how long it took, and what was typed.
std::string origin(const TrainingRun& run, const std::string& command) {
  const Dataset& data = run.data();
  const Encoding& encoding = data.encoding;
  std::string target = encoding.task == Task::Classification ? encoding.class_column : encoding.targets[0].column;
  if (encoding.targets.size() > 1) target += fmt::format(" and {} more", encoding.targets.size() - 1);
  return fmt::format(
      "<p>Target: {}. {} training, {} validation, {} test samples of {} features. {:.4g} s of training. moxie {}.</p>\n"
      "<pre>{}</pre>\n",
      escaped(target), data.train.rows(), data.validation.rows(), data.test.rows(), encoding.feature_count(),
      run.state().elapsed, MOXIE_VERSION, escaped(command));
}

/// How covariances were computed, and what was added to them.
std::string numerics(const FinalReport& report) {
  std::string text;
  if (!report.covariance.empty())
    text += fmt::format("<p>Method for covariances: {}.</p>\n", escaped(report.covariance));
  for (const Jitter& each : report.jitter)
    text += fmt::format("<p>{:g} is added to {}.</p>\n", each.amount, escaped(each.matrix));
  return text;
}

}  // namespace

std::vector<Chart> history_charts(const std::string& metrics) {
  const std::vector<SortedJson> epochs = epochs_of(metrics);
  Chart loss{
      "Loss", "epoch", "", {curve(epochs, "loss", "training", 0), curve(epochs, "validation_loss", "validation", 1)}};
  loss.y_limits = settled_limits(loss.series);
  Chart rate{"Learning rate", "epoch", "", {curve(epochs, "rate", "", 2)}, true};
  const bool classes = !epochs.empty() && epochs.front().contains("validation_error");
  const char* score = classes ? "validation_error" : "validation_rmse";
  Chart quality{classes ? "Validation error" : "Validation RMSE", "epoch", "", {curve(epochs, score, "", 1)}};
  quality.y_limits = settled_limits(quality.series);
  std::vector<Chart> charts = {loss, rate};
  if (!quality.series[0].x.empty()) charts.push_back(quality);
  const Series divergence = curve(epochs, "kl", "", 0);
  if (!divergence.x.empty())
    charts.push_back({"Divergence of the posterior from the prior", "epoch", "nats", {divergence}});
  return charts;
}

std::vector<Chart> function_charts(const std::map<std::string, RowValues>& functions,
                                   const std::vector<double>& activations) {
  std::vector<Chart> charts;
  for (std::size_t k = 1;; ++k) {
    const std::string layer = fmt::format("layer{}", k);
    const auto mean = functions.find(layer + ".mean");
    if (mean == functions.end()) return charts;
    for (std::size_t unit = 0; unit < std::min(mean->second.columns, kUnitsShown); ++unit)
      charts.push_back(function_chart(functions, layer, unit, activations));
  }
}

std::string report_html(const TrainConfig& config, const FinalReport& report, TrainingRun& run,
                        const std::string& metrics, const std::string& command) {
  const std::string title = escaped(fmt::format("{} on {}", config.model, config.data));
  const RunState& state = run.state();
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title><style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n<p>{2}: epoch {3}, step {4}; the best parameters are those after epoch {5}.</p>\n",
      title, kStyle, escaped(state.finished), state.position.data.epoch + 1, state.position.step, state.best_epoch);
  page += origin(run, command);
  for (const std::string& warning : report.warnings)
    page += fmt::format("<p class=\"warning\">Warning: {}.</p>\n", escaped(warning));
  page += numerics(report) + score_table(report, run.data(), config.target_units);
  page +=
      section("Training",
              "The parameters with the lowest validation loss are kept; the learning rate drops when it stops falling.",
              history_charts(metrics));
  const Samples& test = run.data().test;
  const Encoding& encoding = run.data().encoding;
  const Prediction prediction = run.predict(test);
  page += section("Calibration", "Of the test predictions; dashed lines are those of a perfect model.",
                  calibration_charts(prediction, test.y, encoding));
  if (has_frames(encoding)) {
    page += frames(prediction, test, encoding);
  } else {
    page += section("Errors", "Of the test predictions; dashed lines are those of a perfect model.",
                    accuracy_charts(prediction, test.y, encoding, config.target_units));
  }
  page += class_tables(prediction, test.y, encoding);
  std::vector<double> activations;
  constexpr int kSteps = 120;
  for (int i = 0; i <= kSteps; ++i) activations.push_back(-3.5 + 7.0 * i / kSteps);
  page += section("Activation functions",
                  "Learned functions of the first units of each layer, with a standard deviation on both sides, and "
                  "their virtual observations.",
                  function_charts(run.functions(activations), activations), " small");
  return page + formula(config) + settings(config) + "</body></html>\n";
}

}  // namespace moxie
