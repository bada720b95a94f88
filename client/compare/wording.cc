// Formats numbers and composes sentences.
#include "client/compare/wording.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace longstream::client {
namespace {

constexpr int kDigits = 3;

// Returns the number that is written before the unit.
double Shown(MetricUnit unit, double value) {
  switch (unit) {
    case MetricUnit::kPercent:
      return 100 * value;
    case MetricUnit::kRatio:
      return std::exp(value);
    case MetricUnit::kNats:
    case MetricUnit::kBits:
      break;
  }
  return value;
}

std::string Suffix(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::kNats:
      return " nats";
    case MetricUnit::kBits:
      return " bits";
    case MetricUnit::kPercent:
      return " %";
    case MetricUnit::kRatio:
      return "×";
  }
  return "";
}

std::string Prompts(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " prompt" : " prompts");
}

// "KL 0.0310 nats [0.0280, 0.0340], agreement 96.2 % [95.8, 96.6]"
std::string QualityText(const PairAnalysis& pair) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (const MetricResult* kl = Find(pair.metrics, Metric::kKl)) {
    add("KL " + ValueText(MetricUnit::kNats, kl->mean) + " " +
        IntervalText(MetricUnit::kNats, kl->interval));
  }
  if (const MetricResult* part = Find(pair.metrics, Metric::kDisagreement)) {
    add("agreement " + ValueText(MetricUnit::kPercent, 1 - part->mean) + " " +
        IntervalText(MetricUnit::kPercent, {1 - part->interval.high, 1 - part->interval.low}));
  }
  const MetricResult* bits = Find(pair.metrics, Metric::kBitsPerByte);
  if (bits != nullptr &&
      pair.verdict != PairVerdict::kDifferent) {  // else DirectionClause has them
    add("bits per byte " + DifferenceText(MetricUnit::kBits, bits->mean) + " " +
        IntervalText(MetricUnit::kBits, bits->interval));
  }
  return text;
}

// -1: the other arm predicts the text better than the baseline, 1: worse, 0: one cannot say.
int Direction(const MeanInterval& bits, size_t prompts) {
  if (std::isnan(bits.mean) || prompts < kLeastPrompts) return 0;
  return bits.interval.high < 0 ? -1 : bits.interval.low > 0 ? 1 : 0;
}

// "better with prompts of 1024–4096 tokens (-0.475 to -2.99 bits per byte), no certain difference
// with prompts of 256 tokens". "" if one can say nothing about any length.
std::string DirectionsByLength(const std::vector<LengthRow>& rows) {
  std::string known;
  std::string unknown;
  for (auto first = rows.begin(); first != rows.end();) {
    const auto direction = [](const LengthRow& row) {
      return Direction(row.bits_per_byte, row.prompts);
    };
    const auto end = std::find_if(first, rows.end(), [&](const LengthRow& row) {
      return direction(row) != direction(*first);
    });
    const LengthRow& last = *(end - 1);
    const std::string prompts =
        " with prompts of " + RangeText(first->shortest, last.longest) + " tokens";
    if (direction(*first) == 0) {
      unknown += ", no certain difference" + prompts;
    } else {
      const std::string least = DifferenceText(MetricUnit::kBits, first->bits_per_byte.mean);
      const std::string to = DifferenceText(MetricUnit::kBits, last.bits_per_byte.mean);
      known += known.empty() ? "" : ", ";
      known += (direction(*first) < 0 ? "better" : "worse") + prompts + " (";
      // The first number needs no unit.
      if (end - first > 1) known += least.substr(0, least.find(' ')) + " to ";
      known += to + " per byte)";
    }
    first = end;
  }
  return known.empty() ? "" : known + unknown;
}

// "it predicts the text worse (+0.0310 bits per byte [0.0280, 0.0340])", or at which lengths it
// does.
// "" if the arms have read no common text.
std::string DirectionClause(const Comparison& comparison, const PairAnalysis& pair) {
  const MeanInterval& bits = pair.bits_per_byte;
  if (std::isnan(bits.mean)) return "";
  // An arm's own answers are easier for this arm, so the sentence names them.
  const bool is_answer = comparison.forced_by.rfind("the answers of ", 0) == 0;
  const std::string text = is_answer ? comparison.forced_by : "the text";
  const std::string by_length = pair.lengths.size() > 1 ? DirectionsByLength(pair.lengths) : "";
  if (!by_length.empty()) return "it predicts " + text + " " + by_length;
  const std::string amount = " (" + DifferenceText(MetricUnit::kBits, bits.mean) + " per byte " +
                             IntervalText(MetricUnit::kBits, bits.interval) + ")";
  switch (Direction(bits, comparison.prompts.size() - pair.lost)) {
    case -1:
      return "it predicts " + text + " better" + amount;
    case 1:
      return "it predicts " + text + " worse" + amount;
    default:
      return "neither predicts " + text + " certainly better" + amount;
  }
}

// "it needs 0.210 of the bytes at 4096 tokens"
std::string BytesClause(const PairAnalysis& pair) {
  for (auto row = pair.lengths.rbegin(); row != pair.lengths.rend(); ++row) {
    if (std::isnan(row->bytes_ratio)) continue;
    return "it needs " + Significant(row->bytes_ratio, kDigits) + " of the bytes at " +
           std::to_string(std::llround(row->tokens)) + " tokens";
  }
  return "";
}

std::string LatencyText(const PairAnalysis& pair) {
  std::string text;
  for (const Metric metric : {Metric::kTtft, Metric::kItl}) {
    const MetricResult* result = Find(pair.metrics, metric);
    if (result == nullptr) continue;
    text += text.empty() ? "" : ", ";
    text += (metric == Metric::kTtft ? "TTFT " : "ITL ") +
            ValueText(MetricUnit::kRatio, result->mean) + " " +
            IntervalText(MetricUnit::kRatio, result->interval);
  }
  return text;
}

// The metrics that decided, unless the sentence shows one of them anyway: " in Log-probability".
std::string UnseenDifferences(const PairAnalysis& pair) {
  std::string names;
  for (const MetricResult& result : pair.metrics) {
    const Verdict verdict = result.decision.verdict;
    if (verdict == Verdict::kOver ||
        (verdict == Verdict::kDifferent && result.metric == Metric::kBitsPerByte)) {
      return "";
    }
    if (verdict != Verdict::kDifferent || !Info(result.metric).quality) continue;
    names += (names.empty() ? " in " : ", ") + std::string(Info(result.metric).title);
  }
  return names;
}

std::string VerdictClause(const Comparison& comparison, const PairAnalysis& pair) {
  const std::string& baseline = comparison.arms[0].name;
  const std::string& other = comparison.arms[pair.other].name;
  const size_t ran = comparison.prompts.size() - pair.lost;
  switch (pair.verdict) {
    case PairVerdict::kInterim:
      return "Interim, no verdict (" + std::to_string(comparison.prompts.size()) + " prompts, " +
             std::to_string(comparison.plan.prompts) + " planned" +
             (comparison.plan.extended ? ", extended after a verdict" : "") + "): " + other +
             " against " + baseline;
    case PairVerdict::kDifferent:
      return other + " is different from " + baseline + UnseenDifferences(pair);
    case PairVerdict::kEqual:
      return other + " equals " + baseline + " within the stated minimum effects";
    case PairVerdict::kTooFew:
      break;
  }
  std::string text = Prompts(ran) + (ran == 1 ? " is" : " are") + " too few to tell " + other +
                     " from " + baseline;
  if (pair.more_prompts > 0) {
    text += " (" + std::to_string(pair.more_prompts) + " more would decide)";
  }
  return text;
}

}  // namespace

std::string Significant(double value, int digits) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value < 0 ? "-∞" : "∞";
  if (value == 0) return "0";
  char text[64];
  // Rounding first, so that 0.9996 becomes 1.00 and not 1.000.
  std::snprintf(text, sizeof(text), "%.*e", digits - 1, value);
  const int exponent = static_cast<int>(std::strtol(std::strchr(text, 'e') + 1, nullptr, 10));
  if (exponent < -4 || exponent >= 7) return text;
  std::snprintf(text, sizeof(text), "%.*f", std::max(0, digits - 1 - exponent), value);
  return text;
}

std::string Trimmed(std::string text) {
  const size_t point = text.find('.');
  if (point == std::string::npos) return text;
  const size_t unit = std::min(text.find_first_not_of("0123456789", point + 1), text.size());
  size_t end = unit;
  while (text[end - 1] == '0') --end;
  if (text[end - 1] == '.') --end;
  return text.erase(end, unit - end);
}

std::string ValueText(MetricUnit unit, double value) {
  if (std::isnan(value)) return "–";
  return Significant(Shown(unit, value), kDigits) + Suffix(unit);
}

std::string DifferenceText(MetricUnit unit, double value) {
  const bool sign = unit != MetricUnit::kRatio && value > 0;
  return (sign ? "+" : "") + ValueText(unit, value);
}

std::string IntervalText(MetricUnit unit, const Interval& interval) {
  // As many decimals as the wider end needs would hide the narrower one, so each end has its own.
  return "[" + Significant(Shown(unit, interval.low), kDigits) + ", " +
         Significant(Shown(unit, interval.high), kDigits) + "]";
}

std::string BytesText(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return Significant(bytes, kDigits) + kUnits[unit];
}

std::string SecondsText(double seconds) {
  if (seconds < 1e-3) return Significant(1e6 * seconds, kDigits) + " µs";
  if (seconds < 1) return Significant(1e3 * seconds, kDigits) + " ms";
  return Significant(seconds, kDigits) + " s";
}

std::string RangeText(uint64_t first, uint64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "–" + std::to_string(last);
}

Outcome OutcomeOf(const Comparison& comparison, const PairAnalysis& pair) {
  if (pair.verdict != PairVerdict::kDifferent) return Outcome::kNeutral;
  bool better = false;
  bool worse = false;
  const auto add = [&](int direction) {
    better |= direction < 0;
    worse |= direction > 0;
  };
  if (pair.lengths.size() > 1) {
    for (const LengthRow& row : pair.lengths) add(Direction(row.bits_per_byte, row.prompts));
  }
  if (!better && !worse) add(Direction(pair.bits_per_byte, comparison.prompts.size() - pair.lost));
  if (better == worse) return Outcome::kNeutral;
  return better ? Outcome::kBetter : Outcome::kWorse;
}

std::string DecisionText(const MetricResult& result) {
  const Decision& decision = result.decision;
  std::string text(VerdictText(decision.verdict));
  const Outcome outcome = OutcomeOf(result);
  if (outcome != Outcome::kNeutral) return text + ": " + std::string(OutcomeKey(outcome));
  if (decision.more_prompts == 0) return text;
  return text + ": " + std::to_string(decision.more_prompts) + " more " +
         (decision.more_prompts == 1 ? "prompt" : "prompts") + " would decide";
}

std::string PairSentence(const Comparison& comparison, const PairAnalysis& pair) {
  if (pair.lost == comparison.prompts.size() && pair.lost > 0) {
    return "Nothing is known about " + comparison.arms[pair.other].name +
           ": of every prompt, it or " + comparison.arms[0].name + " was lost.";
  }
  std::string sentence = VerdictClause(comparison, pair);
  const std::string direction =
      pair.verdict == PairVerdict::kDifferent ? DirectionClause(comparison, pair) : "";
  const char* separator = ": ";
  for (const std::string& clause :
       {direction, QualityText(pair), BytesClause(pair), LatencyText(pair)}) {
    if (clause.empty()) continue;
    sentence += separator + clause;
    separator = "; ";
  }
  if (!pair.same_tokenizer) {
    sentence += ". Token metrics are not comparable, because the tokenizers differ";
  }
  if (pair.lost > 0) {
    sentence += ". An arm was lost on " + Prompts(pair.lost);
  }
  return sentence + ".";
}

}  // namespace longstream::client
