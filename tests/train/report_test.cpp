// The structure of report.html: no network, nothing unclosed, every plot there.
#include "tools/commands/report.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "compiler/support/error.h"
#include "data/compression.h"
#include "tests/train/tiny.h"
#include "tools/commands/report_frames.h"
#include "tools/commands/report_image.h"
#include "tools/commands/train_report.h"

namespace {

using namespace moxie;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Every element is closed, in the order in which they were opened.
void check_nesting(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag[0] == '/') {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == tag.substr(1));
      open.pop_back();
    } else if (tag[0] != '!' && tag.back() != '/' && name != "meta") {
      open.push_back(name);
    }
  }
  CHECK(open.empty());
}

void check_self_contained(const std::string& html) {
  for (const char* outside : {"http:", "https:", "href=", "@import", "url("}) CHECK(count(html, outside) == 0);
  CHECK(count(html, "src=") == count(html, "src=\"data:image/png;base64,"));
  CHECK(count(html, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">") == 1);
  CHECK(count(html.substr(0, html.find("<details>")), "nan") == 0);
}

/// The report of a short run, and its metrics line.
std::string report_of(const TrainConfig& config, Task task) {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset(task);
  const RunFolder folder = RunFolder::create(scratch / "run", config, "");
  TrainingRun run = tiny::run(config, data);
  const auto note = [&](const EpochReport& report) { folder.append_metrics(metrics_line(report)); };
  run.train({.report = note, .save = folder.saver()});
  return report_html(config, run.evaluate_best(), run, folder.read_metrics(), "moxie train <tiny>");
}

}  // namespace

TEST_CASE("the report of a classifier with a posterior") {
  TrainConfig config = tiny::config("gpn");
  config.inference = "vb";
  config.propagate = "covariance";
  config.kl_warmup = 2;
  const std::string html = report_of(config, Task::Classification);
  check_nesting(html);
  check_self_contained(html);
  for (const char* part : {"<title>Loss</title>", "<title>Learning rate</title>", "<title>Reliability</title>",
                           "<title>Divergence of the posterior from the prior</title>", "<title>layer2, unit 5</title>",
                           "Method for covariances: exact.", "0.01 is added to the prior covariance of the targets",
                           "1e-06 is added to the covariance behind the loss", "<tr><td>error</td>"})
    CHECK(count(html, part) == 1);
  CHECK(count(html, "class=\"point c1\"") == 66);  // eleven units with six virtual observations
  CHECK(count(html, "class=\"band c0\"") == 11);
}

TEST_CASE("the report of regression") {
  const std::string html = report_of(tiny::config("gpn"), Task::Regression);
  check_nesting(html);
  check_self_contained(html);
  CHECK(count(html, "<title>Probability integral transform</title>") == 1);
  CHECK(count(html, "class=\"bar c0\"") == 20);
  for (const char* part : {"<title>y: predicted against observed</title>", "<title>y: error against deviation</title>"})
    CHECK(count(html, part) == 1);
}

TEST_CASE("axes and scores of values have the unit of the target") {
  TrainConfig config = tiny::config("mlp");
  config.target_units = {"EUR/m<sup>2"};
  const std::string html = report_of(config, Task::Regression);
  check_nesting(html);
  for (const char* part :
       {">observed [EUR/m&lt;sup&gt;2]<", ">predicted [EUR/m&lt;sup&gt;2]<",
        ">predicted standard deviation [EUR/m&lt;sup&gt;2]<", "<tr><td>rmse [EUR/m&lt;sup&gt;2]</td>",
        "<tr><td>crps [EUR/m&lt;sup&gt;2]</td>", "<tr><td>nll</td>", "<tr><td>coverage_90</td>"})
    CHECK_MESSAGE(count(html, part) == 1, part);
  Encoding two = tiny::encoding(Task::Regression);
  two.targets.push_back({"z", 0, 1});
  CHECK_NOTHROW(check_units(config, two));
  config.target_units = {"m", "s", "kg"};
  CHECK_THROWS_WITH_AS(check_units(config, two),
                       "--target-unit m,s,kg: there are 2 targets; give one unit for each, or one for all", DataError);
  CHECK_THROWS_WITH_AS(check_units(config, tiny::encoding(Task::Classification)),
                       "--target-unit m,s,kg: the targets are classes, which have no unit", DataError);
}

TEST_CASE("the report of a network without Gaussian process neurons") {
  const std::string html = report_of(tiny::config("mlp"), Task::Classification);
  check_nesting(html);
  CHECK(count(html, "Activation functions") == 0);
  CHECK(count(html, "<svg viewBox=\"0 0 480") == 5);
  CHECK(count(html, "<title>Samples by confidence</title>") == 1);
  for (const char* part : {"<h2>Confusion matrix</h2>", "<th class=\"side\">outside</th>", "Target: class.",
                           "<pre>moxie train &lt;tiny&gt;</pre>", "<th>test, constant</th>",
                           "always 'inside', as 50 % of the training samples are"})
    CHECK(count(html, part) == 1);
  // Charts keep their width however few there are, and what was chosen stands before what is as always.
  CHECK(count(html, "auto-fit") == 0);
  const std::size_t chosen = html.find("<h2>Settings</h2>"), usual = html.find("<details>");
  CHECK(html.substr(chosen, usual - chosen).find("<td>batch</td><td>16</td>") != std::string::npos);
  CHECK(html.substr(usual).find("<td>optimiser</td><td>adam</td>") != std::string::npos);
}

TEST_CASE("the report of sequences of frames") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.image = {2, 2, 3};
  for (int k = 0; k < 12; ++k) encoding.targets.push_back({fmt::format("pixel {}", k), 0.5, 2});
  CHECK(has_frames(encoding));
  const Prediction prediction{Task::Regression, 1, 12, {}, std::vector<double>(12, 0.3), std::vector<double>(12, 0.04)};
  const Samples samples{Matrix(1, 12), Matrix(1, 12)};
  const std::string html = frame_tables(prediction, samples, encoding);
  check_nesting(html);
  check_self_contained("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">" + html + "<details>");
  for (const char* row : {"<td>read</td>", "<td>target</td>", "<td>mean</td>", "<td>sd, white: 0.2</td>"})
    CHECK(count(html, row) == 1);
  CHECK(count(html, "<img") == 4);
  encoding.targets.pop_back();
  CHECK_FALSE(has_frames(encoding));
}

TEST_CASE("images are PNG files") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string file = png({3, 2, {0, 0.5, 1, -1, 2, nan}});
  CHECK(file.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  const std::size_t data = file.find("IDAT") + 4, end = file.find("IEND") - 8;
  // The stream of zlib has two bytes before what is deflated, and a checksum of four behind it.
  const std::string lines = inflate_raw(file.substr(data + 2, end - data - 6), "test", 100);
  CHECK(lines == std::string({0, 0, '\x80', '\xff', 0, 0, '\xff', 0}));
  CHECK(count(image_element({1, 1, {0}}, "a \"b\""), "iVBORw0KGgo") == 1);
}

TEST_CASE("charts") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string line =
      svg({"a < b", "x", "y", {{Series::Kind::Line, "name", 0, {0, 1, 2, 3}, {1, nan, 2, 3}}}, false});
  check_nesting(line);
  CHECK(count(line, "a &lt; b") == 2);
  CHECK(count(line, "nan") == 0);
  CHECK(svg({"empty", "", "", {{Series::Kind::Line, "", 0, {}, {}}}}).find("no values") != std::string::npos);
  const std::string rates = svg({"", "", "", {{Series::Kind::Line, "", 0, {0, 1}, {1e-2, 1e-4}}}, true});
  for (const char* tick : {">0.01<", ">0.001<", ">0.0001<"}) CHECK(count(rates, tick) == 1);
  const std::string flat = svg({"", "", "", {{Series::Kind::Points, "", 0, {1, 1}, {2, 2}, {3, 3}}}});
  CHECK(count(flat, "nan") == 0);
  CHECK(count(flat, "inf") == 0);
  // Adding a tick's step to such values does not change them.
  for (const double far : {1e17, -1e17, 1e300, 4e307}) {
    const std::string text =
        svg({"", "", "", {{Series::Kind::Line, "", 0, {far, far * (1 + 4e-16)}, {far, far * (1 + 4e-16)}}}});
    CHECK(count(text, "class=\"tick") < 50);
  }
  const std::string whole = svg({"", "", "", {{Series::Kind::Line, "", 0, {-1.7e308, 1.7e308}, {-1.7e308, 1.7e308}}}});
  CHECK(count(whole, "class=\"tick") < 50);
}
