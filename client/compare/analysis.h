// Everything that the report of a comparison says, as plain values.
#ifndef LONGSTREAM_CLIENT_COMPARE_ANALYSIS_H_
#define LONGSTREAM_CLIENT_COMPARE_ANALYSIS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/compare/metric_results.h"
#include "client/compare/observations.h"
#include "client/compare/paired_statistics.h"

namespace longstream::client {

// A mean over prompts with its 95 % interval, which is not adjusted for the number of rows.
struct MeanInterval {
  double mean = 0;
  Interval interval;
};

// The tokens at positions first ... last, counted from the first compared token (0).
struct PositionRow {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t prompts = 0;  // that have tokens there
  MeanInterval kl;
  // A fraction. Its interval is Wilson's with the effective number of tokens m (1 - m) / se^2, with
  // se over prompts (as many as prompts where no prompt differs), because the tokens at one
  // position mostly agree and a bootstrap of them says little.
  MeanInterval agreement;
};

// The first position of a prompt at which two arms prefer different tokens.
struct Flip {
  size_t prompt = 0;  // index in the comparison
  uint64_t position = 0;
  std::string before;  // text of the tokens before, at most kFlipContext bytes
  std::string baseline_choice;
  std::string other_choice;
  std::string after;  // text of the tokens from this position on, as the baseline read them
  double kl = 0;
};
inline constexpr size_t kFlipContext = 80;  // bytes
inline constexpr size_t kMostFlips = 20;

// The prompts whose length is first ... last tokens: a power of two to the next.
struct LengthRow {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t shortest = 0;  // of these prompts, tokens
  uint64_t longest = 0;
  size_t prompts = 0;  // on which both arms ran
  double tokens = 0;   // mean length of the sessions at the end
  double kl = 0;       // means over prompts; NaN if there is none
  double agreement = 0;
  double ttft_ratio = 0;  // geometric means over prompts, other / baseline
  double itl_ratio = 0;
  double bytes_ratio = 0;
  // As PairAnalysis::bits_per_byte. The intervals of all rows hold at once (Bonferroni).
  MeanInterval bits_per_byte;
};

// The verdict of a pair, by those of its metrics of quality. Time and memory do not count.
enum class PairVerdict {
  kInterim,
  kDifferent,  // a metric is *different* or *over δ*
  kEqual,      // every metric is *equal within δ* or *within δ*
  kTooFew,     // neither
};

// Its name in the JSON, which is also its class in the page: "different", "too_few".
std::string_view PairVerdictKey(PairVerdict verdict);

struct PairAnalysis {
  size_t other = 0;  // the arm that is compared with arm 0
  bool same_tokenizer = true;
  size_t lost = 0;  // prompts on which one of the arms was lost
  PairVerdict verdict = PairVerdict::kTooFew;
  uint64_t more_prompts = 0;  // for kTooFew: the most that a metric of quality needs; 0: unknown
  std::vector<MetricResult> metrics;
  // Of the text that both arms have read, other - baseline: with fewer bits the other arm predicts
  // it better. For equal tokenizers too. NaN: the arms read no common text.
  MeanInterval bits_per_byte;
  std::vector<PositionRow> positions;
  std::vector<LengthRow> lengths;
  std::vector<Flip> flips;  // the earliest first, at most kMostFlips
  size_t flipped = 0;       // prompts with a flip
  double median_flip = 0;   // median position of all first flips; NaN if there is none
};

// Sessions of one arm whose prompts have similar lengths.
struct MemoryRow {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t prompts = 0;
  double tokens = 0;  // means over prompts
  double kv = 0;
  double window = 0;
  double state = 0;

  double total() const { return kv + window + state; }
};

struct ArmAnalysis {
  size_t prompts = 0;  // that ended
  size_t lost = 0;
  std::vector<double> ttft_seconds;  // of all prompts, ascending
  std::vector<double> itl_seconds;   // of all tokens, ascending
  uint64_t reused_tokens = 0;
  uint64_t recomputed_tokens = 0;
  std::vector<MemoryRow> memory;
};

struct Analysis {
  bool interim = false;
  std::vector<PairAnalysis> pairs;  // arm 1, arm 2, ...
  std::vector<ArmAnalysis> arms;
};

// REQUIRES: the comparison has at least two arms, and every prompt has one ArmRun per arm.
Analysis Analyze(const Comparison& comparison);

// Returns the result of a metric, or null if no prompt has a value of it.
const MetricResult* Find(const std::vector<MetricResult>& metrics, Metric metric);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_ANALYSIS_H_
