// Reads the clock for benchmarks, and computes medians and percentiles.
#ifndef LONGSTREAM_TESTS_BENCH_TIMING_H_
#define LONGSTREAM_TESTS_BENCH_TIMING_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

namespace longstream {

// Seconds of the steady clock.
inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Work>
double SecondsOf(const Work& work) {
  const double begin = Seconds();
  work();
  return Seconds() - begin;
}

// Returns the median. For an even number of values this is the mean of the two in the middle.
// REQUIRES: there is a value.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Returns the smallest value that the part `part` (0 ... 1) of the values does not exceed. NaN:
// there are no values.
inline double Percentile(std::vector<double> values, double part) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const auto index = static_cast<size_t>(part * static_cast<double>(values.size()));
  return values[std::min(index, values.size() - 1)];
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_TIMING_H_
