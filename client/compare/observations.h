// The measurements of a comparison of models. These are plain values; nothing here computes.
#ifndef LONGSTREAM_CLIENT_COMPARE_OBSERVATIONS_H_
#define LONGSTREAM_CLIENT_COMPARE_OBSERVATIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "client/compare/metric.h"

namespace longstream::client {

// One of the models that are compared. The first arm is the baseline.
struct ComparedArm {
  std::string name;       // unique in the comparison, for people
  std::string model;      // as the server names it
  std::string version;    // of the model, or the fingerprint of its weights; may be empty
  std::string tokenizer;  // fingerprint; token metrics need equal ones
};

// One token of one arm.
struct TokenScore {
  double log_prob = 0;    // natural logarithm of the probability that the arm gave the token
  uint64_t rank = 0;      // 0: no token was more probable
  bool top1 = false;      // the token is the arm's most probable one
  std::string text;       // the token's bytes; maybe only a part of a UTF-8 character
  std::string top1_text;  // the bytes of the arm's most probable token; may be empty
};

// The baseline and another arm at one position, where both have read the same tokens.
struct PairToken {
  double kl = 0;       // KL(baseline || other) over the whole vocabulary, nats
  bool agrees = true;  // both arms have the same most probable token
  double delta_p = 0;  // probability of the baseline's token: other - baseline
};

struct BytesByKind {
  uint64_t kv = 0;
  uint64_t window = 0;
  uint64_t state = 0;

  uint64_t total() const { return kv + window + state; }
};

// One prompt on one arm.
struct ArmRun {
  std::string error;               // not empty: the arm was lost; the other fields mean nothing
  std::vector<TokenScore> tokens;  // generated or forced, in order
  double ttft_seconds = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> itl_seconds;  // between successive tokens, or only their mean
  BytesByKind bytes;                // of the session at the end
  uint64_t reused_tokens = 0;       // of the prompt
  uint64_t recomputed_tokens = 0;
  std::string text;  // of all tokens; maybe not UTF-8
  double bits_per_byte = std::numeric_limits<double>::quiet_NaN();
};

// One prompt on all arms.
struct PromptRun {
  std::string id;
  uint64_t tokens = 0;       // of the prompt, by the baseline's tokenizer
  std::vector<ArmRun> arms;  // one for each arm of the comparison
  // One for each arm after the baseline: arm a is pairs[a - 1]. Position i describes token i of
  // both arms. The list ends where the arms have read different tokens; it is empty if an arm was
  // lost or the tokenizers differ.
  std::vector<std::vector<PairToken>> pairs;
};

// The decisions that were made before the first prompt ran. Verdicts are only valid for that plan.
struct ComparisonPlan {
  uint64_t prompts = 0;       // planned N
  bool extended = false;      // prompts were added after a verdict was seen
  uint64_t seed = 1;          // of the bootstrap
  uint32_t resamples = 9999;  // of the bootstrap
  double alpha = 0.05;        // chance that any metric of a pair is wrongly *different* or *over*
  MinimumEffects minimum_effects = DefaultMinimumEffects();
};

struct Comparison {
  ComparisonPlan plan;
  bool teacher_forced = true;  // all arms read the same tokens; false: each reads its own
  std::string forced_by;       // for people: the source of the forced tokens
  std::string latency;         // for people: how latencies were measured; may be empty
  std::string server;          // for people: its address or version
  std::string measured_at;     // for people; may be empty
  std::vector<ComparedArm> arms;
  std::vector<PromptRun> prompts;  // the prompts that have run
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_OBSERVATIONS_H_
