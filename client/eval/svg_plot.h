// Draws a line plot over positions as an SVG file.
#ifndef LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_
#define LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_

#include <string>
#include <vector>

namespace longstream::client {

// The x axis is logarithmic; the y axis goes from 0 to 100.
struct SvgPlot {
  struct Point {
    double x;  // >= 1
    double y;
  };
  struct Line {
    std::string name;
    std::vector<Point> points;  // x ascends
  };

  std::string title;
  std::string x_label;
  std::string y_label;
  double mark = 0;  // x of a dashed line from bottom to top; 0: none
  std::vector<Line> lines;
};

// Returns the complete file. Texts may hold any UTF-8.
std::string Svg(const SvgPlot& plot);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_SVG_PLOT_H_
