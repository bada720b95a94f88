// The value of each metric for one prompt.
#ifndef LONGSTREAM_CLIENT_COMPARE_PROMPT_VALUES_H_
#define LONGSTREAM_CLIENT_COMPARE_PROMPT_VALUES_H_

#include <cstddef>

#include "client/compare/metric.h"
#include "client/compare/observations.h"

namespace longstream::client {

// The value of a metric for one prompt: arm `other` (1 or higher) against the baseline.
struct PromptValue {
  double difference;  // other - baseline, or the distance; NaN if the prompt has no value
  double baseline;    // NaN for distances
  double other;
};

// Whether both arms have ended this prompt.
bool BothRan(const PromptRun& prompt, size_t other);

// Whether the two arms read the same token ids, so that metrics of tokens have a meaning.
bool SameTokenizer(const Comparison& comparison, size_t other);

// Token metrics are means over the positions at which both arms had read the same tokens. They have
// no value if the tokenizers differ; bits per byte only has one if they do, because it would repeat
// the log-probability. In a free-running comparison each arm scores tokens of its own, so
// log-probability, top-1 and bits per byte have no value.
// Latencies and bytes are logarithms of ratios. The latency between tokens is the prompt's median.
PromptValue ValueOf(const Comparison& comparison, const PromptRun& prompt, size_t other,
                    Metric metric);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PROMPT_VALUES_H_
