// The order of the verdicts, and sample sizes.
#include "client/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longstream::client {
namespace {

// Each of the two one-sided tests of equality.
constexpr double kEqualityTail = 0.05;

// A number that fits every integer type and that no comparison reaches.
constexpr double kMostPrompts = 1e9;

Verdict VerdictOf(const Evidence& evidence) {
  const double delta = evidence.minimum_effect;
  if (evidence.interim) return Verdict::kInterim;
  if (evidence.prompts < kLeastPrompts) return Verdict::kTooFew;
  if (evidence.distance) {
    if (evidence.equality.high <= delta) return Verdict::kWithin;
    return evidence.rejected ? Verdict::kOver : Verdict::kTooFew;
  }
  if (evidence.equality.Within(-delta, delta)) return Verdict::kEqual;
  return evidence.rejected ? Verdict::kDifferent : Verdict::kTooFew;
}

}  // namespace

std::string_view VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kInterim:
      return "interim";
    case Verdict::kTooFew:
      return "too few";
    case Verdict::kEqual:
      return "equal within δ";
    case Verdict::kDifferent:
      return "different";
    case Verdict::kWithin:
      return "within δ";
    case Verdict::kOver:
      return "over δ";
  }
  return "";
}

std::string_view OutcomeKey(Outcome outcome) {
  switch (outcome) {
    case Outcome::kBetter:
      return "better";
    case Outcome::kWorse:
      return "worse";
    case Outcome::kNeutral:
      break;
  }
  return "neutral";
}

std::string_view VerdictKey(Verdict verdict) {
  switch (verdict) {
    case Verdict::kInterim:
      return "interim";
    case Verdict::kTooFew:
      return "too_few";
    case Verdict::kEqual:
      return "equal";
    case Verdict::kDifferent:
      return "different";
    case Verdict::kWithin:
      return "within";
    case Verdict::kOver:
      return "over";
  }
  return "";
}

Decision Decide(const Evidence& evidence) {
  Decision decision{VerdictOf(evidence), 0};
  if (decision.verdict == Verdict::kTooFew && evidence.prompts >= 2) {
    decision.more_prompts = PromptsNeeded(evidence) - evidence.prompts;
  }
  return decision;
}

uint64_t PromptsNeeded(const Evidence& evidence) {
  const double delta = evidence.minimum_effect;
  const double had = static_cast<double>(evidence.prompts);
  const double deviation = DeviationLimit(evidence.deviation, evidence.prompts);
  const double tail = evidence.alpha / 2;
  double needed;
  if (evidence.distance) {
    const double effect = std::max(std::abs(delta - evidence.mean), delta / 10);
    needed = PromptsToFind(deviation, effect, evidence.mean > delta ? tail : kEqualityTail);
  } else {
    // Equality of equal arms needs both one-sided tests, each with half of the risk to miss.
    needed = std::max(PromptsToFind(deviation, delta, tail),
                      PromptsToFind(deviation, delta, kEqualityTail, (1 + kPower) / 2));
    if (needed <= had) {
      // An effect e needs ((z1 + z) sd / e)^2 prompts to differ from 0, ((z2 + z) sd / (δ - e))^2
      // to be below δ. Both are equal where e / (δ - e) = (z1 + z) / (z2 + z).
      const double z = NormalQuantile(kPower);
      const double differs = NormalQuantile(1 - tail) + z;
      const double equals = NormalQuantile(1 - kEqualityTail) + z;
      needed = PromptsToFind(deviation, delta * differs / (differs + equals), tail);
    }
  }
  if (needed <= had) needed = std::ceil(1.25 * had);
  // Also for NaN and infinity.
  if (!(needed < kMostPrompts)) needed = kMostPrompts;
  return std::max({kLeastPrompts, evidence.prompts + 1, static_cast<uint64_t>(needed)});
}

}  // namespace longstream::client
