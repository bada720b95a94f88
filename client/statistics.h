// Summaries of measured times.
#ifndef LONGSTREAM_CLIENT_STATISTICS_H_
#define LONGSTREAM_CLIENT_STATISTICS_H_

#include <vector>

namespace longstream::client {

// Returns the value below which the fraction `p` (0 ... 1) of the values lies, interpolated
// linearly between the closest ranks. Returns NaN if there are no values.
double Percentile(std::vector<double> values, double p);

// Returns the times between successive tokens. Message i arrived after `seconds`[i] with
// `tokens`[i] tokens. The time since the previous message is divided among the tokens of a message;
// those of the first message have none. REQUIRES: as many of `seconds` as of `tokens`.
std::vector<double> InterTokenTimes(const std::vector<double>& seconds,
                                    const std::vector<int>& tokens);

struct Summary {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
Summary Summarize(const std::vector<double>& values);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_STATISTICS_H_
