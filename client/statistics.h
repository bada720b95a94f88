// Summaries of measured times.
#ifndef LONGSTREAM_CLIENT_STATISTICS_H_
#define LONGSTREAM_CLIENT_STATISTICS_H_

#include <vector>

namespace longstream::client {

// Returns the value below which the fraction `p` (0 ... 1) of the values lies, interpolated
// linearly between the closest ranks. Returns NaN if there are no values.
double Percentile(std::vector<double> values, double p);

struct Summary {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
Summary Summarize(const std::vector<double>& values);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_STATISTICS_H_
