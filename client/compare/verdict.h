// The verdict about a metric, and the number of prompts that would decide it.
#ifndef LONGSTREAM_CLIENT_COMPARE_VERDICT_H_
#define LONGSTREAM_CLIENT_COMPARE_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/compare/paired_statistics.h"

namespace longstream::client {

// Below this many prompts the level of the bootstrap has not been checked: every verdict is
// kTooFew.
inline constexpr uint64_t kLeastPrompts = 20;

// With δ the stated minimum effect of the metric. In this order, the first that holds:
enum class Verdict {
  // The plan has not been fulfilled, or prompts were added after a verdict was seen. Nothing is
  // said, because looking again and again finds a difference at some time.
  kInterim,
  // Fewer than kLeastPrompts prompts, or none of the verdicts below.
  kTooFew,
  // A difference: the 90 % interval lies within ±δ. (Two one-sided tests, each at 5 %; Schuirmann,
  // 1987.) An effect below δ does not count, even if it is certainly not 0.
  kEqual,
  // A difference: the interval at Holm's level excludes 0. The effect may be smaller than δ.
  kDifferent,
  // A distance: the upper end of the 90 % interval is at most δ.
  kWithin,
  // A distance: the interval at Holm's level lies above δ.
  kOver,
};

// Returns how the verdict is written: "equal within δ".
std::string_view VerdictText(Verdict verdict);
// Returns how it is written in JSON: "equal".
std::string_view VerdictKey(Verdict verdict);

// The direction of a *different* metric, for the other arm. kNeutral: neither, and any other
// verdict.
enum class Outcome { kNeutral, kBetter, kWorse };

// Returns its name in the JSON, which is also its class in the page: "better".
std::string_view OutcomeKey(Outcome outcome);

// The values that decide a verdict.
struct Evidence {
  bool interim = false;
  bool distance = false;
  double minimum_effect = 0;  // δ
  size_t prompts = 0;         // that have a value
  double mean = 0;
  double deviation = 0;   // standard deviation over prompts
  Interval equality;      // the 90 % interval
  bool rejected = false;  // Holm rejects "the mean is 0", or for a distance "it is at most δ"
  double alpha = 0.05;    // two-sided, of the first of Holm's steps: alpha / metrics
};

struct Decision {
  Verdict verdict = Verdict::kTooFew;
  // For kTooFew: a new comparison of `prompts + more_prompts` prompts would decide with probability
  // kPower. 0 if that cannot be said (no value, or fewer than two).
  uint64_t more_prompts = 0;
};
Decision Decide(const Evidence& evidence);

// The number of prompts that decide with probability kPower, at least kLeastPrompts and more than
// evidence.prompts. The standard deviation is taken at its upper limit (DeviationLimit).
//
// A difference: enough to find an effect of δ at Holm's first level, and to show that no effect is
// less than δ. If the comparison had as many and did not decide, the effect lies between 0 and δ:
// enough for the effect between them that is hardest to decide. A comparison that had even that
// many was unlucky: a quarter more. A distance: enough to find the observed distance between the
// mean and δ, or δ / 10 if it is less.
//
// REQUIRES: evidence.prompts >= 2, minimum_effect > 0.
uint64_t PromptsNeeded(const Evidence& evidence);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_VERDICT_H_
