// The statistics and the verdict of each metric of a pair of arms.
#ifndef LONGSTREAM_CLIENT_COMPARE_METRIC_RESULTS_H_
#define LONGSTREAM_CLIENT_COMPARE_METRIC_RESULTS_H_

#include <cstddef>
#include <vector>

#include "client/compare/metric.h"
#include "client/compare/observations.h"
#include "client/compare/paired_statistics.h"
#include "client/compare/verdict.h"

namespace longstream::client {

struct MetricResult {
  Metric metric;
  size_t prompts = 0;    // that have a value
  double baseline = 0;   // mean over prompts; NaN for a distance
  double other = 0;      // the same
  double mean = 0;       // of the differences (Δ = other - baseline), or of the distance
  double deviation = 0;  // their standard deviation
  double effect = 0;     // mean / deviation; NaN if both are 0 or there are too few prompts
  Interval interval;     // at Holm's level: simultaneous over the metrics of the pair
  Interval equality;     // of level 90 %, not adjusted
  double p = 1;          // adjusted by Holm; of "the mean is 0", or "the distance is at most δ"
  double minimum_effect = 0;  // δ
  Decision decision;
};

// By the sign of the mean, if the metric is *different*.
Outcome OutcomeOf(const MetricResult& result);

// Whether the prompts that ran are not those that were planned.
bool Interim(const Comparison& comparison);

// Returns one result for each metric that any prompt has a value of, in the order of kAllMetrics.
// Each metric has resamples of its own, which depend only on the seed, the arm and the metric.
// Intervals end at the least and greatest possible value of the metric.
// REQUIRES: 0 < other < comparison.arms.size().
std::vector<MetricResult> CompareMetrics(const Comparison& comparison, size_t other);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_METRIC_RESULTS_H_
