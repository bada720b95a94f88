// Scales axes and writes SVG elements.
#include "client/compare/page/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "client/compare/page/html_text.h"

namespace longstream::client {
namespace {

// In units of the viewBox. On a phone one unit is a bit less than a pixel.
constexpr double kWidth = 420;
constexpr double kHeight = 260;
constexpr double kLeft = 64;
constexpr double kRight = 408;
constexpr double kTop = 12;
constexpr double kBottom = 214;

constexpr size_t kMostTicks = 6;

std::string Pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

bool IsLog(AxisScale scale) { return scale == AxisScale::kLog2 || scale == AxisScale::kLog10; }

// An axis with its range, from which values are mapped to pixels.
class Scale {
 public:
  Scale(const ChartAxis& axis, double least, double most, double from, double to)
      : axis_(axis), from_(from), to_(to) {
    switch (axis.scale) {
      case AxisScale::kPercent:
        SetLinear(std::min(least, 0.98), 1);
        break;
      case AxisScale::kLinear:
        SetLinear(std::min(least, 0.0), most);
        break;
      case AxisScale::kLog2:
        SetLog2(least, most);
        break;
      case AxisScale::kLog10:
        SetLog10(least, most);
        break;
    }
  }

  double Pixel(double value) const {
    const double part = (Mapped(value) - Mapped(low_)) / (Mapped(high_) - Mapped(low_));
    return from_ + (to_ - from_) * std::clamp(part, 0.0, 1.0);
  }
  bool Shows(double value) const {
    return std::isfinite(value) && (!IsLog(axis_.scale) || value > 0);
  }
  const std::vector<double>& ticks() const { return ticks_; }
  std::string Text(double tick) const { return axis_.text(tick); }

 private:
  double Mapped(double value) const { return IsLog(axis_.scale) ? std::log2(value) : value; }

  // Steps are 1, 2 or 5 times a power of ten.
  void SetLinear(double least, double most) {
    if (!(most > least)) most = least + 1;
    const double power = std::pow(10, std::floor(std::log10((most - least) / 5)));
    double step = power;
    for (const double digit : {1.0, 2.0, 5.0, 10.0}) {
      step = digit * power;
      if ((most - least) / step <= 5) break;
    }
    low_ = step * std::floor(least / step + 1e-9);
    high_ = step * std::ceil(most / step - 1e-9);
    const int count = static_cast<int>(std::lround((high_ - low_) / step));
    for (int i = 0; i <= count; ++i) ticks_.push_back(low_ + step * i);
  }

  void SetLog2(double least, double most) {
    const int first = static_cast<int>(std::floor(std::log2(least) + 1e-9));
    const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log2(most) - 1e-9)));
    low_ = std::exp2(first);
    high_ = std::exp2(last);
    const int step = (last - first) / static_cast<int>(kMostTicks) + 1;
    for (int power = first; power <= last; power += step) ticks_.push_back(std::exp2(power));
  }

  void SetLog10(double least, double most) {
    low_ = least / 1.1;
    high_ = most * 1.1;
    for (const int per_decade : {3, 1}) {
      ticks_.clear();
      for (int power = static_cast<int>(std::floor(std::log10(low_))); std::pow(10, power) <= high_;
           ++power) {
        for (const double digit : {1.0, 2.0, 5.0}) {
          const double tick = digit * std::pow(10, power);
          if ((per_decade == 3 || digit == 1) && tick >= low_ && tick <= high_) {
            ticks_.push_back(tick);
          }
        }
      }
      if (ticks_.size() <= kMostTicks) break;
    }
    if (ticks_.size() < 2) ticks_ = {least, most};
    if (ticks_.size() > kMostTicks) {
      const size_t every = ticks_.size() / kMostTicks + 1;
      std::vector<double> kept;
      for (size_t i = 0; i < ticks_.size(); i += every) kept.push_back(ticks_[i]);
      ticks_ = std::move(kept);
    }
  }

  const ChartAxis& axis_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 1;
  std::vector<double> ticks_;
};

bool IsShown(const Chart& chart, const ChartPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) &&
         (!IsLog(chart.x.scale) || point.x > 0) && (!IsLog(chart.y.scale) || point.y > 0);
}

// Leaves out points that cannot be drawn.
std::vector<ChartSeries> Shown(const Chart& chart) {
  std::vector<ChartSeries> shown = chart.series;
  for (ChartSeries& series : shown) {
    std::erase_if(series.points, [&](const ChartPoint& point) { return !IsShown(chart, point); });
  }
  std::erase_if(shown, [](const ChartSeries& series) { return series.points.empty(); });
  return shown;
}

std::string Line(double x1, double y1, double x2, double y2, const char* css_class) {
  return "<line class=\"" + std::string(css_class) + "\" x1=\"" + Pixels(x1) + "\" y1=\"" +
         Pixels(y1) + "\" x2=\"" + Pixels(x2) + "\" y2=\"" + Pixels(y2) + "\"/>\n";
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + Pixels(x) + "\" y=\"" + Pixels(y) + "\" text-anchor=\"" + anchor + "\">" +
         Escaped(text) + "</text>\n";
}

std::string Axes(const Chart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  for (const double tick : y.ticks()) {
    svg += Line(kLeft, y.Pixel(tick), kRight, y.Pixel(tick), "grid");
    svg += Text(kLeft - 6, y.Pixel(tick) + 4, "end", y.Text(tick));
  }
  for (const double tick : x.ticks()) {
    svg += Line(x.Pixel(tick), kTop, x.Pixel(tick), kBottom, "grid");
    svg += Text(x.Pixel(tick), kBottom + 17, "middle", x.Text(tick));
  }
  return svg + Text((kLeft + kRight) / 2, kBottom + 38, "middle", chart.x.label);
}

std::string Band(const ChartSeries& series, const Scale& x, const Scale& y) {
  std::string upper;
  std::string lower;
  for (const ChartPoint& point : series.points) {
    const auto pixel = [&](double value, double edge) {
      return Pixels(x.Pixel(point.x)) + "," + Pixels(y.Shows(value) ? y.Pixel(value) : edge) + " ";
    };
    upper += pixel(point.high, kTop);
    lower.insert(0, pixel(point.low, kBottom));
  }
  return "<polygon class=\"band c" + std::to_string(series.colour % 8) + "\" points=\"" + upper +
         lower + "\"/>\n";
}

std::string Drawing(const ChartSeries& series, bool steps, const Scale& x, const Scale& y) {
  const std::string colour = "c" + std::to_string(series.colour % 8);
  std::string svg;
  std::string points;
  std::string before;
  for (const ChartPoint& point : series.points) {
    const std::string px = Pixels(x.Pixel(point.x)) + ",";
    if (steps && !before.empty()) points.append(px).append(before);
    before = Pixels(y.Pixel(point.y)) + " ";
    points.append(px).append(before);
  }
  const bool band = std::any_of(series.points.begin(), series.points.end(),
                                [](const ChartPoint& p) { return p.low != p.y || p.high != p.y; });
  if (band && !steps) svg += Band(series, x, y);
  svg += "<polyline class=\"line " + colour + "\" points=\"" + points + "\"/>\n";
  if (steps) return svg;
  for (const ChartPoint& point : series.points) {
    svg += "<circle class=\"mark " + colour + "\" cx=\"" + Pixels(x.Pixel(point.x)) + "\" cy=\"" +
           Pixels(y.Pixel(point.y)) + "\" r=\"3\"/>\n";
  }
  return svg;
}

// The least and greatest of the values that decide the range of an axis.
struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void Add(double value, bool log) {
    if (!std::isfinite(value) || (log && !(value > 0))) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

std::string Svg(const Chart& chart, const std::vector<ChartSeries>& series) {
  Range x_range;
  Range y_range;
  for (const ChartSeries& one : series) {
    for (const ChartPoint& point : one.points) {
      x_range.Add(point.x, IsLog(chart.x.scale));
      // A band may be much wider than the lines; it is cut at twice the greatest value.
      for (const double y : {point.y, point.low, std::min(point.high, 2 * point.y)}) {
        y_range.Add(y, IsLog(chart.y.scale));
      }
    }
  }
  const Scale x(chart.x, x_range.least, x_range.most, kLeft, kRight);
  const Scale y(chart.y, y_range.least, y_range.most, kBottom, kTop);
  std::string svg = "<svg role=\"img\" viewBox=\"0 0 " + Pixels(kWidth) + " " + Pixels(kHeight) +
                    "\" aria-label=\"" + Escaped(chart.summary) + "\">\n" + Axes(chart, x, y);
  for (const ChartSeries& one : series) svg += Drawing(one, chart.steps, x, y);
  return svg + "</svg>\n";
}

}  // namespace

std::string ChartFigure(const Chart& chart) {
  const std::vector<ChartSeries> series = Shown(chart);
  std::string html = "<figure>\n<figcaption>" + Escaped(chart.title) + "</figcaption>\n";
  if (series.empty()) return html + "<p>No values.</p>\n</figure>\n";
  html += "<ul class=\"legend\">";
  for (const ChartSeries& one : series) {
    html += "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line class=\"line c" +
            std::to_string(one.colour % 8) + "\" x1=\"0\" y1=\"5\" x2=\"26\" y2=\"5\"/></svg>" +
            Escaped(one.name) + "</li>";
  }
  return html + "</ul>\n" + Svg(chart, series) + "</figure>\n";
}

}  // namespace longstream::client
