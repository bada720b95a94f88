// A line plot over positions as an SVG file.
#ifndef LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_
#define LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_

#include <string>
#include <vector>

namespace longstream::client {

// x is drawn by its logarithm, y from 0 to 100.
struct SvgPlot {
  struct Point {
    double x;  // from 1
    double y;
  };
  struct Line {
    std::string name;
    std::vector<Point> points;  // by ascending x
  };

  std::string title;
  std::string x_label;
  std::string y_label;
  double mark = 0;  // a dashed line across the plot; 0: none
  std::vector<Line> lines;
};

// The whole file. Texts may hold any bytes of UTF-8.
std::string Svg(const SvgPlot& plot);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_
