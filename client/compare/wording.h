// Numbers and sentences of a comparison for people, as plain text (UTF-8). Names of arms are copied
// as they are: pages must escape the result.
#ifndef LONGSTREAM_CLIENT_COMPARE_WORDING_H_
#define LONGSTREAM_CLIENT_COMPARE_WORDING_H_

#include <cstdint>
#include <string>

#include "client/compare/analysis.h"
#include "client/compare/metric.h"
#include "client/compare/observations.h"
#include "client/compare/paired_statistics.h"

namespace longstream::client {

// Returns a number with this many significant digits: "0.0310". NaN is "–", infinity "∞".
std::string Significant(double value, int digits);

// Returns a number with a unit without superfluous zeros: "20 ms" for "20.0 ms".
std::string Trimmed(std::string text);

// Return a value of a metric with its unit: "0.0310 nats", "96.2 %", "0.803×".
std::string ValueText(MetricUnit unit, double value);
// The same with the sign of a difference: "+1.20 %". Ratios have no sign.
std::string DifferenceText(MetricUnit unit, double value);
// Without unit, because a value stands before: "[0.0280, 0.0340]".
std::string IntervalText(MetricUnit unit, const Interval& interval);

std::string BytesText(double bytes);      // "1.30 MiB"
std::string SecondsText(double seconds);  // "12.3 ms"
// "256–511", or "7" if both are equal.
std::string RangeText(uint64_t first, uint64_t last);

// Returns what an engineer wants to know first about a pair, in one sentence: the verdict; if it is
// *different*, which arm predicts the text better, and with prompts of which lengths; KL and
// agreement (or bits per byte); the bytes at the greatest length; the latencies.
std::string PairSentence(const Comparison& comparison, const PairAnalysis& pair);

// Judges the text as a whole, as PairSentence says it: the other arm predicts it better or worse at
// some lengths, and at no length the reverse. kNeutral: the pair is not *different*, or neither
// holds.
Outcome OutcomeOf(const Comparison& comparison, const PairAnalysis& pair);

// Returns the verdict of one metric: "different: better", "too few: 12 more prompts would decide".
std::string DecisionText(const MetricResult& result);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_WORDING_H_
