// Draws line charts as inline SVG for a page. Colours come from the page's style, so that they
// follow its light or dark mode.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_CHART_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_CHART_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace longstream::client {

struct ChartPoint {
  double x = 0;
  double y = 0;
  double low = 0;  // of the band around the line; equal to y: no band
  double high = 0;
};

struct ChartSeries {
  std::string name;
  size_t colour = 0;               // number of the arm
  std::vector<ChartPoint> points;  // x ascends
};

enum class AxisScale {
  kLinear,   // ticks at round numbers
  kLog2,     // from a power of two to a power of two
  kLog10,    // ticks at 1, 2 and 5 times powers of ten
  kPercent,  // 0 ... 1, as per cent
};

struct ChartAxis {
  std::string label;
  AxisScale scale = AxisScale::kLinear;
  std::function<std::string(double)> text;  // of a tick
};

struct Chart {
  std::string title;
  std::string summary;  // for people who cannot see the chart
  ChartAxis x;
  ChartAxis y;
  bool steps = false;  // draw steps without marks (a distribution); else lines with marks
  std::vector<ChartSeries> series;
};

// Returns <figure>...</figure> with caption, legend and drawing. Points whose x or y is not finite,
// or not positive on a logarithmic axis, are left out; a band ends at the edge of the chart. Texts
// may hold any bytes. Without a point there is a sentence instead of the drawing.
std::string ChartFigure(const Chart& chart);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_CHART_H_
