#pragma once
// Charts as SVG text: lines, bands, points and bars over two axes.
#include <string>
#include <utility>
#include <vector>

namespace moxie {

struct Series {
  enum class Kind : std::uint8_t {
    Line,
    Band,    // between `y` and `upper`
    Points,  // with a bar from y to `upper` and as far down, where `upper` is given
    Bars     // from zero; `x` are their centres
  };
  Kind kind = Kind::Line;
  std::string name;  // for the legend; empty: not listed
  std::size_t colour = 0;
  std::vector<double> x, y, upper = {};
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;
  double width = 480, height = 280;
  std::pair<double, double> y_limits = {0, 0}, x_limits = {0, 0};  // equal: what the series need
};

/// A self-contained element that takes the width of its surroundings. Values that are not finite are left out; a chart
/// without any says so.
std::string svg(const Chart& chart);

/// Text as HTML shows it.
std::string escaped(const std::string& text);

}  // namespace moxie
