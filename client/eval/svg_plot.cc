// Draws axes, lines and a legend.
#include "client/eval/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace longstream::client {
namespace {

// Sizes in pixels. The legend is to the right of the plot.
constexpr double kPlotWidth = 760;
constexpr double kHeight = 400;
constexpr double kLeft = 60;
constexpr double kRight = 560;
constexpr double kTop = 40;
constexpr double kBottom = 345;
constexpr double kLegend = 575;
constexpr double kLegendLine = 20;

// The colours of Okabe and Ito, which people with any colour vision can distinguish. Further lines
// repeat the colours and are dashed.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000"};

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string Text(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x=\"" + Pixels(x) + "\" y=\"" + Pixels(y) + "\" text-anchor=\"" + anchor + "\">" +
         Escaped(text) + "</text>\n";
}

std::string Segment(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + Pixels(x1) + "\" y1=\"" + Pixels(y1) + "\" x2=\"" + Pixels(x2) +
         "\" y2=\"" + Pixels(y2) + "\" " + style + "/>\n";
}

// Converts values to pixels.
class Axes {
 public:
  explicit Axes(const SvgPlot& plot) {
    double least = INFINITY;
    double most = -INFINITY;
    for (const SvgPlot::Line& line : plot.lines) {
      for (const SvgPlot::Point& point : line.points) {
        least = std::min(least, point.x);
        most = std::max(most, point.x);
      }
    }
    // The axis goes from one power of two to a greater one.
    if (least <= most) {
      low_ = std::max(0, static_cast<int>(std::floor(std::log2(least))));
      high_ = std::max(low_ + 1, static_cast<int>(std::ceil(std::log2(most))));
    }
  }

  double X(double x) const {
    return kLeft + (kRight - kLeft) * (std::log2(x) - low_) / (high_ - low_);
  }
  static double Y(double y) { return kBottom - (kBottom - kTop) * y / 100; }

  // Draws the grid lines and their numbers.
  std::string Draw() const {
    const std::string grid = "stroke=\"#ddd\"";
    std::string svg;
    for (int y = 0; y <= 100; y += 20) {
      svg += Segment(kLeft, Y(y), kRight, Y(y), grid);
      svg += Text(kLeft - 6, Y(y) + 4, "end", std::to_string(y));
    }
    // There is room for about a dozen numbers.
    const int step = (high_ - low_) / 12 + 1;
    for (int power = low_; power <= high_; power += step) {
      const double x = X(std::exp2(power));
      svg += Segment(x, kTop, x, kBottom, grid);
      svg += Text(x, kBottom + 17, "middle", std::to_string(int64_t{1} << power));
    }
    return svg;
  }

 private:
  int low_ = 0;  // the axis goes from 2^low_ to 2^high_
  int high_ = 1;
};

std::string Draw(const SvgPlot::Line& line, size_t number, const Axes& axes) {
  const std::string colour = kColours[number % kColours.size()];
  const std::string dashes = number < kColours.size() ? "" : " stroke-dasharray=\"6 3\"";
  const std::string style = "stroke=\"" + colour + "\" stroke-width=\"2\"" + dashes;
  std::string svg = "<polyline fill=\"none\" " + style + " points=\"";
  for (const SvgPlot::Point& point : line.points) {
    svg += Pixels(axes.X(point.x)) + "," + Pixels(Axes::Y(point.y)) + " ";
  }
  svg += "\"/>\n";
  for (const SvgPlot::Point& point : line.points) {
    svg += "<circle cx=\"" + Pixels(axes.X(point.x)) + "\" cy=\"" + Pixels(Axes::Y(point.y)) +
           "\" r=\"3\" fill=\"" + colour + "\"/>\n";
  }
  const double y = kTop + 10 + kLegendLine * static_cast<double>(number);
  return svg + Segment(kLegend, y, kLegend + 20, y, style) +
         Text(kLegend + 26, y + 4, "start", line.name);
}

}  // namespace

std::string Svg(const SvgPlot& plot) {
  const Axes axes(plot);
  const double height =
      std::max(kHeight, kTop + 20 + kLegendLine * static_cast<double>(plot.lines.size()));
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + Pixels(kPlotWidth) +
                    "\" height=\"" + Pixels(height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  svg += Text((kLeft + kRight) / 2, 22, "middle", plot.title);
  svg += axes.Draw();
  svg += Text((kLeft + kRight) / 2, kBottom + 38, "middle", plot.x_label);
  svg += Text(kLeft, kTop - 10, "middle", plot.y_label);
  if (plot.mark > 0) {
    const double x = axes.X(plot.mark);
    if (x >= kLeft && x <= kRight) {
      svg += Segment(x, kTop, x, kBottom, "stroke=\"#555\" stroke-dasharray=\"3 3\"");
    }
  }
  for (size_t i = 0; i < plot.lines.size(); ++i) svg += Draw(plot.lines[i], i, axes);
  return svg + "</svg>\n";
}

}  // namespace longstream::client
