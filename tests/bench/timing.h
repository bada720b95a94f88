// Reads the clock for benchmarks, and computes medians.
#ifndef LONGSTREAM_TESTS_BENCH_TIMING_H_
#define LONGSTREAM_TESTS_BENCH_TIMING_H_

#include <algorithm>
#include <chrono>
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

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_TIMING_H_
