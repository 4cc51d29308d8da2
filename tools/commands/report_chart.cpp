#include "tools/commands/report_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace moxie {
namespace {

constexpr double kLeft = 52, kRight = 10, kTop = 26, kBottom = 38;
constexpr int kTicks = 5;
constexpr double kWidestBars = 10;  // so many fill the width

/// From values to positions.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  double begin = 0, end = 1;  // positions of low and high
  bool logarithmic = false;

  double scaled(double value) const { return logarithmic ? std::log10(value) : value; }
  bool shows(double value) const { return std::isfinite(value) && !(logarithmic && value <= 0); }
  void include(double value) {
    if (!shows(value)) return;
    low = std::min(low, scaled(value));
    high = std::max(high, scaled(value));
  }
  bool empty() const { return low > high; }
  void widen() {
    const double pad = high > low ? 0.04 * (high - low) : std::max(0.5, std::abs(high) * 0.1);
    low -= pad;
    high += pad;
  }
  double at(double value) const { return begin + (end - begin) * (scaled(value) - low) / (high - low); }
};

/// A step of 1, 2 or 5 times a power of ten that gives about kTicks of them.
double tick_step(const Axis& axis) {
  const double rough = (axis.high - axis.low) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
  return axis.logarithmic ? std::max(step, 1.0) : step;
}

/// The values that have a tick. Counted in whole numbers and at most a few more than wanted: on an axis far from zero
/// that is short, adding a step to a value need not change it.
std::vector<double> tick_values(const Axis& axis) {
  std::vector<double> values;
  const double step = tick_step(axis), first = std::ceil(axis.low / step);
  for (int k = 0; k <= 4 * kTicks && (first + k) * step <= axis.high; ++k) values.push_back((first + k) * step);
  return values;
}

std::string ticks(const Axis& x, const Axis& y) {
  std::string text;
  for (const double value : tick_values(x)) {
    const double at = x.begin + (x.end - x.begin) * (value - x.low) / (x.high - x.low);
    text +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"tick middle\">{:g}</text>", at, y.begin + 15, value + 0.0);
  }
  for (const double scaled : tick_values(y)) {
    const double at = y.begin + (y.end - y.begin) * (scaled - y.low) / (y.high - y.low);
    const double value = y.logarithmic ? std::pow(10, scaled) : scaled + 0.0;
    text += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" class=\"grid\"/><text x=\"{:.1f}\" y=\"{:.1f}\" class=\"tick "
        "end\">{:g}</text>",
        x.begin, at, x.end, x.begin - 5, at + 4, value);
  }
  return text;
}

/// Calls draw(i) for every point that can be shown.
template <class Draw>
void each_point(const Series& series, const Axis& x, const Axis& y, Draw&& draw) {
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (x.shows(series.x[i]) && y.shows(series.y[i])) draw(i);
  }
}

std::string line(const Series& s, const Axis& x, const Axis& y) {
  std::string path;
  each_point(s, x, y, [&](std::size_t i) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(s.x[i]), y.at(s.y[i]));
  });
  return fmt::format("<path d=\"{}\" class=\"line c{}\"/>", path, s.colour);
}

std::string band(const Series& s, const Axis& x, const Axis& y) {
  std::string there, back;
  each_point(s, x, y, [&](std::size_t i) {
    if (!y.shows(s.upper[i])) return;
    there += fmt::format("{}{:.1f} {:.1f}", there.empty() ? "M" : "L", x.at(s.x[i]), y.at(s.y[i]));
    back = fmt::format("L{:.1f} {:.1f}", x.at(s.x[i]), y.at(s.upper[i])) + back;
  });
  return there.empty() ? "" : fmt::format("<path d=\"{}{}Z\" class=\"band c{}\"/>", there, back, s.colour);
}

std::string points(const Series& s, const Axis& x, const Axis& y) {
  std::string text;
  each_point(s, x, y, [&](std::size_t i) {
    const double at = x.at(s.x[i]), middle = y.at(s.y[i]);
    text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" class=\"point c{}\"/>", at, middle, s.colour);
    if (s.upper.empty() || !y.shows(s.upper[i])) return;
    const double half = middle - y.at(s.upper[i]);
    text += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" class=\"line c{}\"/>", at, middle - half, middle + half,
                        s.colour);
  });
  return text;
}

std::string bars(const Series& s, const Axis& x, const Axis& y) {
  double width = 0.9 * (x.end - x.begin) / kWidestBars;
  for (std::size_t i = 1; i < s.x.size(); ++i) width = std::min(width, 0.9 * (x.at(s.x[i]) - x.at(s.x[i - 1])));
  std::string text;
  each_point(s, x, y, [&](std::size_t i) {
    const double top = y.at(s.y[i]);
    text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"bar c{}\"/>",
                        x.at(s.x[i]) - width / 2, top, width, std::max(0.0, y.at(0) - top), s.colour);
  });
  return text;
}

std::string drawn(const Series& s, const Axis& x, const Axis& y) {
  switch (s.kind) {
    case Series::Kind::Line:
      return line(s, x, y);
    case Series::Kind::Band:
      return band(s, x, y);
    case Series::Kind::Points:
      return points(s, x, y);
    case Series::Kind::Bars:
      return bars(s, x, y);
  }
  return {};
}

std::string legend(const Chart& chart) {
  std::string text;
  double at = chart.width - kRight;
  for (auto s = chart.series.rbegin(); s != chart.series.rend(); ++s) {
    if (s->name.empty()) continue;
    text +=
        fmt::format("<text x=\"{:.1f}\" y=\"16\" class=\"legend end f{}\">{}</text>", at, s->colour, escaped(s->name));
    at -= 8.0 * static_cast<double>(s->name.size()) + 10;
  }
  return text;
}

std::pair<Axis, Axis> axes(const Chart& chart) {
  Axis x{.begin = kLeft, .end = chart.width - kRight};
  Axis y{.begin = chart.height - kBottom, .end = kTop, .logarithmic = chart.log_y};
  for (const Series& s : chart.series) {
    each_point(s, x, y, [&](std::size_t i) {
      x.include(s.x[i]);
      y.include(s.y[i]);
      if (!s.upper.empty()) y.include(s.upper[i]);
      if (s.kind == Series::Kind::Bars) y.include(0);
    });
  }
  if (chart.y_limits.first < chart.y_limits.second) {
    y.low = y.scaled(chart.y_limits.first);
    y.high = y.scaled(chart.y_limits.second);
  }
  if (chart.x_limits.first < chart.x_limits.second) {
    x.low = x.scaled(chart.x_limits.first);
    x.high = x.scaled(chart.x_limits.second);
  }
  return {x, y};
}

}  // namespace

std::string svg(const Chart& chart) {
  auto [x, y] = axes(chart);
  std::string text = fmt::format(
      "<svg viewBox=\"0 0 {0:g} {1:g}\" role=\"img\"><title>{2}</title><text x=\"{3:g}\" y=\"16\" "
      "class=\"title\">{2}</text>",
      chart.width, chart.height, escaped(chart.title), kLeft);
  if (x.empty() || y.empty())
    return text + fmt::format("<text x=\"{:g}\" y=\"60\" class=\"tick\">no values</text></svg>\n", kLeft);
  x.widen();
  y.widen();
  text += ticks(x, y);
  // A nested element cuts off what lies outside of it.
  text +=
      fmt::format("<svg x=\"{0:g}\" y=\"{1:g}\" width=\"{2:g}\" height=\"{3:g}\" viewBox=\"{0:g} {1:g} {2:g} {3:g}\">",
                  x.begin, y.end, x.end - x.begin, y.begin - y.end);
  for (const Series& s : chart.series) text += drawn(s, x, y);
  text += fmt::format("</svg><path d=\"M{:g} {:g}V{:g}H{:g}\" class=\"axis\"/>", x.begin, y.end, y.begin, x.end);
  text += legend(chart);
  text += fmt::format("<text x=\"{:g}\" y=\"{:g}\" class=\"label end\">{}</text>", x.end, chart.height - 6,
                      escaped(chart.x_label));
  return text + fmt::format("<text transform=\"translate(12 {:g}) rotate(-90)\" class=\"label end\">{}</text></svg>\n",
                            y.end, escaped(chart.y_label));
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace moxie
