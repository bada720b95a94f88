// A cost that grows with the depth in the context, and how it is fitted to measurements.
#ifndef LONGSTREAM_SERVICE_ROUTING_COST_LINE_H_
#define LONGSTREAM_SERVICE_ROUTING_COST_LINE_H_

#include <span>
#include <vector>

namespace longstream {

// The seconds of one token at a depth: base + slope * depth. Full attention reads every earlier
// token, so its cost is linear in the depth. Windows and recurrent states have a constant cost. So
// every mixture of layers has such a line, except within the first window.
struct CostLine {
  double base = 0.0;
  double slope = 0.0;

  double At(double depth) const { return base + slope * depth; }
  // The sum over `tokens` tokens, the first one at `depth`.
  double Sum(double depth, double tokens) const { return tokens * At(depth + tokens / 2); }

  friend bool operator==(const CostLine&, const CostLine&) = default;
};

struct CostSample {
  double depth = 0.0;
  double seconds = 0.0;  // of one token
};

// REQUIRES: values is not empty.
double MedianOf(std::vector<double> values);

// Fits a line with base >= 0 and slope >= 0. The slope is the median of the slopes of all pairs of
// samples (Theil, 1950; Sen, 1968), so that single samples that another process has disturbed move
// nothing. The base is that of the shallower half of the samples, because a slope that is a little
// wrong moves short requests most. Samples of one depth: the line is constant. No samples: it is 0.
CostLine FitLine(std::span<const CostSample> samples);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ROUTING_COST_LINE_H_
