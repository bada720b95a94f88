// Groups prompts and tokens by position and by length.
#include "client/compare/analysis.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "client/compare/not_finite.h"
#include "client/compare/prompt_values.h"
#include "client/statistics.h"

namespace longstream::client {
namespace {

constexpr double kRowAlpha = 0.05;

// The mean of values that are added one after the other.
class Mean {
 public:
  // Ignores NaN.
  void Add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    count_ += 1;
  }
  double value() const { return count_ == 0 ? kNaN : sum_ / count_; }

 private:
  double sum_ = 0;
  double count_ = 0;
};

MeanInterval MeanKl(const std::vector<double>& values, uint64_t seed, uint32_t resamples) {
  const StudentisedBootstrap bootstrap(values, seed, resamples);
  const Interval interval = bootstrap.Confidence(kRowAlpha);
  return {bootstrap.mean(), {std::max(interval.low, 0.0), std::max(interval.high, 0.0)}};
}

// The mean of differences; NaN without values.
MeanInterval MeanDifference(const std::vector<double>& values, uint64_t seed, uint32_t resamples,
                            double alpha) {
  const StudentisedBootstrap bootstrap(values, seed, resamples);
  return {bootstrap.mean(), bootstrap.Confidence(alpha)};
}

// The mean of fractions with Wilson's interval. REQUIRES: !values.empty().
MeanInterval MeanFraction(const std::vector<double>& values) {
  const StudentisedBootstrap summary(values, 0, 1);
  const double m = summary.mean();
  const double error = summary.standard_error();
  const double prompts = static_cast<double>(values.size());
  const double n = error > 0 && m > 0 && m < 1 ? m * (1 - m) / (error * error) : prompts;
  const double z = NormalQuantile(1 - kRowAlpha / 2);
  const double centre = (m + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(m * (1 - m) / n + z * z / (4 * n * n));
  return {m, {std::max(0.0, centre - half), std::min(1.0, centre + half)}};
}

// Positions 0, 1, 2-3, 4-7, 8-15, ...
std::vector<PositionRow> Positions(const Comparison& comparison, size_t other) {
  size_t longest = 0;
  for (const PromptRun& prompt : comparison.prompts) {
    if (prompt.pairs.size() >= other) longest = std::max(longest, prompt.pairs[other - 1].size());
  }
  std::vector<PositionRow> rows;
  const ComparisonPlan& plan = comparison.plan;
  for (size_t first = 0; first < longest; first = std::max(size_t{1}, 2 * first)) {
    PositionRow& row = rows.emplace_back();
    row.first = first;
    row.last = std::min(longest, std::max(size_t{1}, 2 * first)) - 1;
    std::vector<double> kl;
    std::vector<double> agreement;
    for (const PromptRun& prompt : comparison.prompts) {
      Mean kl_mean;
      Mean agreement_mean;
      if (prompt.pairs.size() < other || !BothRan(prompt, other)) continue;
      const std::vector<PairToken>& pair = prompt.pairs[other - 1];
      for (size_t i = first; i <= row.last && i < pair.size(); ++i) {
        if (!std::isfinite(pair[i].kl)) continue;
        kl_mean.Add(pair[i].kl);
        agreement_mean.Add(pair[i].agrees ? 1 : 0);
      }
      if (std::isnan(kl_mean.value())) continue;
      kl.push_back(kl_mean.value());
      agreement.push_back(agreement_mean.value());
    }
    row.prompts = kl.size();
    if (kl.empty()) {
      rows.pop_back();
      continue;
    }
    row.kl = MeanKl(kl, plan.seed + 1000003 * other + first, plan.resamples);
    row.agreement = MeanFraction(agreement);
  }
  return rows;
}

// The group of a prompt: the number of bits of its length.
int LengthGroup(uint64_t tokens) { return std::bit_width(tokens); }
uint64_t FirstOf(int group) { return group == 0 ? 0 : uint64_t{1} << (group - 1); }
uint64_t LastOf(int group) { return group == 0 ? 0 : (FirstOf(group) - 1) + FirstOf(group); }

double SessionTokens(const PromptRun& prompt, size_t arm) {
  return static_cast<double>(prompt.tokens) + static_cast<double>(prompt.arms[arm].tokens.size());
}

// The bits per byte of the text that both arms have read, other - baseline. NaN: there is none.
double BitsDifference(const Comparison& comparison, const PromptRun& prompt, size_t other) {
  if (!comparison.teacher_forced || !BothRan(prompt, other)) return kNaN;
  return prompt.arms[other].bits_per_byte - prompt.arms[0].bits_per_byte;
}

MeanInterval Bits(const Comparison& comparison, size_t other) {
  std::vector<double> values;
  for (const PromptRun& prompt : comparison.prompts) {
    const double bits = BitsDifference(comparison, prompt, other);
    if (std::isfinite(bits)) values.push_back(bits);
  }
  const ComparisonPlan& plan = comparison.plan;
  return MeanDifference(values, plan.seed + 2000003 * other, plan.resamples, kRowAlpha);
}

std::vector<LengthRow> Lengths(const Comparison& comparison, size_t other) {
  struct Means {
    size_t prompts = 0;
    uint64_t shortest = std::numeric_limits<uint64_t>::max();
    uint64_t longest = 0;
    std::vector<double> bits;
    Mean tokens, kl, agreement, ttft, itl, bytes;
  };
  std::map<int, Means> groups;
  for (const PromptRun& prompt : comparison.prompts) {
    if (!BothRan(prompt, other)) continue;
    Means& means = groups[LengthGroup(prompt.tokens)];
    const auto value = [&](Metric metric) {
      return ValueOf(comparison, prompt, other, metric).difference;
    };
    ++means.prompts;
    means.shortest = std::min(means.shortest, prompt.tokens);
    means.longest = std::max(means.longest, prompt.tokens);
    const double bits = BitsDifference(comparison, prompt, other);
    if (std::isfinite(bits)) means.bits.push_back(bits);
    means.tokens.Add(SessionTokens(prompt, other));
    means.kl.Add(value(Metric::kKl));
    means.agreement.Add(1 - value(Metric::kDisagreement));
    means.ttft.Add(value(Metric::kTtft));
    means.itl.Add(value(Metric::kItl));
    means.bytes.Add(value(Metric::kBytes));
  }
  const ComparisonPlan& plan = comparison.plan;
  std::vector<LengthRow> rows;
  rows.reserve(groups.size());
  for (const auto& [group, means] : groups) {
    LengthRow& row = rows.emplace_back();
    row.first = FirstOf(group);
    row.last = LastOf(group);
    row.shortest = means.shortest;
    row.longest = means.longest;
    row.prompts = means.prompts;
    row.tokens = means.tokens.value();
    row.kl = means.kl.value();
    row.agreement = means.agreement.value();
    row.ttft_ratio = std::exp(means.ttft.value());
    row.itl_ratio = std::exp(means.itl.value());
    row.bytes_ratio = std::exp(means.bytes.value());
    row.bits_per_byte =
        MeanDifference(means.bits, plan.seed + 2000003 * other + row.first, plan.resamples,
                       kRowAlpha / static_cast<double>(groups.size()));
  }
  return rows;
}

std::vector<MemoryRow> Memory(const Comparison& comparison, size_t arm) {
  struct Means {
    size_t prompts = 0;
    Mean tokens, kv, window, state;
  };
  std::map<int, Means> groups;
  for (const PromptRun& prompt : comparison.prompts) {
    const ArmRun& run = prompt.arms[arm];
    if (!run.error.empty()) continue;
    Means& means = groups[LengthGroup(prompt.tokens)];
    ++means.prompts;
    means.tokens.Add(SessionTokens(prompt, arm));
    means.kv.Add(static_cast<double>(run.bytes.kv));
    means.window.Add(static_cast<double>(run.bytes.window));
    means.state.Add(static_cast<double>(run.bytes.state));
  }
  std::vector<MemoryRow> rows;
  rows.reserve(groups.size());
  for (const auto& [group, means] : groups) {
    rows.push_back({FirstOf(group), LastOf(group), means.prompts, means.tokens.value(),
                    means.kv.value(), means.window.value(), means.state.value()});
  }
  return rows;
}

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The last `bytes` bytes of the tokens' texts before `position`, without the rest of a character
// that the cut has hit.
std::string TextBefore(const std::vector<TokenScore>& tokens, size_t position, size_t bytes) {
  std::string text;
  for (size_t i = std::min(position, tokens.size()); i > 0 && text.size() < bytes; --i) {
    text.insert(0, tokens[i - 1].text);
  }
  if (text.size() <= bytes) return text;
  size_t cut = text.size() - bytes;
  while (cut < text.size() && Continues(text[cut])) ++cut;
  return text.substr(cut);
}

// Returns at most `bytes` bytes, cut between characters.
std::string Cut(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && Continues(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string TextFrom(const std::vector<TokenScore>& tokens, size_t position, size_t bytes) {
  std::string text;
  for (size_t i = position; i < tokens.size() && text.size() < bytes; ++i) text += tokens[i].text;
  return Cut(text, bytes);
}

// A token's text, cut so that one strange token cannot fill the page.
std::string Choice(const std::vector<TokenScore>& tokens, size_t position) {
  if (position >= tokens.size()) return "";
  return Cut(tokens[position].top1_text, kFlipContext);
}

void AddFlips(const Comparison& comparison, PairAnalysis* analysis) {
  const size_t other = analysis->other;
  std::vector<double> positions;
  std::vector<Flip> flips;
  for (size_t p = 0; p < comparison.prompts.size(); ++p) {
    const PromptRun& prompt = comparison.prompts[p];
    if (!BothRan(prompt, other) || prompt.pairs.size() < other) continue;
    const std::vector<PairToken>& pair = prompt.pairs[other - 1];
    const auto flip = std::find_if(pair.begin(), pair.end(),
                                   [](const PairToken& token) { return !token.agrees; });
    if (flip == pair.end()) continue;
    positions.push_back(static_cast<double>(flip - pair.begin()));
    flips.push_back({p, static_cast<uint64_t>(flip - pair.begin()), "", "", "", "", flip->kl});
  }
  std::stable_sort(flips.begin(), flips.end(),
                   [](const Flip& a, const Flip& b) { return a.position < b.position; });
  analysis->flipped = flips.size();
  analysis->median_flip = Percentile(positions, 0.5);
  flips.resize(std::min(flips.size(), kMostFlips));
  for (Flip& flip : flips) {
    const std::vector<ArmRun>& arms = comparison.prompts[flip.prompt].arms;
    flip.before = TextBefore(arms[0].tokens, flip.position, kFlipContext);
    flip.after = TextFrom(arms[0].tokens, flip.position, kFlipContext);
    flip.baseline_choice = Choice(arms[0].tokens, flip.position);
    flip.other_choice = Choice(arms[other].tokens, flip.position);
  }
  analysis->flips = std::move(flips);
}

void Judge(PairAnalysis* analysis, bool interim) {
  bool decided = false;
  bool different = false;
  bool undecided = false;
  bool unknown = false;
  for (const MetricResult& result : analysis->metrics) {
    if (!Info(result.metric).quality) continue;
    const Verdict verdict = result.decision.verdict;
    different |= verdict == Verdict::kDifferent || verdict == Verdict::kOver;
    decided |= verdict == Verdict::kEqual || verdict == Verdict::kWithin;
    if (verdict == Verdict::kTooFew) {
      undecided = true;
      unknown |= result.decision.more_prompts == 0;
      analysis->more_prompts = std::max(analysis->more_prompts, result.decision.more_prompts);
    }
  }
  analysis->verdict = interim                 ? PairVerdict::kInterim
                      : different             ? PairVerdict::kDifferent
                      : decided && !undecided ? PairVerdict::kEqual
                                              : PairVerdict::kTooFew;
  if (unknown || analysis->verdict != PairVerdict::kTooFew) analysis->more_prompts = 0;
}

PairAnalysis AnalyzePair(const Comparison& comparison, size_t other) {
  PairAnalysis analysis;
  analysis.other = other;
  analysis.same_tokenizer = SameTokenizer(comparison, other);
  for (const PromptRun& prompt : comparison.prompts) analysis.lost += !BothRan(prompt, other);
  analysis.metrics = CompareMetrics(comparison, other);
  Judge(&analysis, Interim(comparison));
  analysis.bits_per_byte = Bits(comparison, other);
  analysis.lengths = Lengths(comparison, other);
  analysis.median_flip = kNaN;
  if (analysis.same_tokenizer) {
    analysis.positions = Positions(comparison, other);
    AddFlips(comparison, &analysis);
  }
  return analysis;
}

ArmAnalysis AnalyzeArm(const Comparison& comparison, size_t arm) {
  ArmAnalysis analysis;
  for (const PromptRun& prompt : comparison.prompts) {
    const ArmRun& run = prompt.arms[arm];
    if (!run.error.empty()) {
      ++analysis.lost;
      continue;
    }
    ++analysis.prompts;
    if (std::isfinite(run.ttft_seconds)) analysis.ttft_seconds.push_back(run.ttft_seconds);
    for (const double seconds : run.itl_seconds) {
      if (std::isfinite(seconds)) analysis.itl_seconds.push_back(seconds);
    }
    analysis.reused_tokens += run.reused_tokens;
    analysis.recomputed_tokens += run.recomputed_tokens;
  }
  std::sort(analysis.ttft_seconds.begin(), analysis.ttft_seconds.end());
  std::sort(analysis.itl_seconds.begin(), analysis.itl_seconds.end());
  analysis.memory = Memory(comparison, arm);
  return analysis;
}

}  // namespace

std::string_view PairVerdictKey(PairVerdict verdict) {
  switch (verdict) {
    case PairVerdict::kInterim:
      return "interim";
    case PairVerdict::kDifferent:
      return "different";
    case PairVerdict::kEqual:
      return "equal";
    case PairVerdict::kTooFew:
      return "too_few";
  }
  return "";
}

Analysis Analyze(const Comparison& comparison) {
  Analysis analysis;
  analysis.interim = Interim(comparison);
  for (size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    if (arm > 0) analysis.pairs.push_back(AnalyzePair(comparison, arm));
    analysis.arms.push_back(AnalyzeArm(comparison, arm));
  }
  return analysis;
}

const MetricResult* Find(const std::vector<MetricResult>& metrics, Metric metric) {
  for (const MetricResult& result : metrics) {
    if (result.metric == metric) return &result;
  }
  return nullptr;
}

}  // namespace longstream::client
