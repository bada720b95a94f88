// Copies the values into JSON objects.
#include "client/compare/report_json.h"

#include <cmath>

#include "client/compare/prompt_values.h"
#include "client/compare/wording.h"
#include "client/statistics.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json Ends(const Interval& interval) { return {Number(interval.low), Number(interval.high)}; }

Json PlanJson(const Comparison& comparison) {
  const ComparisonPlan& plan = comparison.plan;
  Json effects;
  for (const Metric metric : kAllMetrics) {
    effects[std::string(Info(metric).key)] = plan.minimum_effects[static_cast<size_t>(metric)];
  }
  return {{"prompts", plan.prompts},     {"extended", plan.extended}, {"seed", plan.seed},
          {"resamples", plan.resamples}, {"alpha", plan.alpha},       {"minimum_effects", effects}};
}

Json SummaryJson(const std::vector<double>& seconds) {
  const Summary summary = Summarize(seconds);
  return {{"count", seconds.size()},
          {"p50", Number(summary.p50)},
          {"p90", Number(summary.p90)},
          {"p99", Number(summary.p99)},
          {"max", Number(summary.max)}};
}

Json ArmJson(const ComparedArm& arm, const ArmAnalysis& analysis) {
  Json memory = Json::array();
  for (const MemoryRow& row : analysis.memory) {
    memory.push_back({{"first", row.first},
                      {"last", row.last},
                      {"prompts", row.prompts},
                      {"tokens", Number(row.tokens)},
                      {"bytes",
                       {{"kv", Number(row.kv)},
                        {"window", Number(row.window)},
                        {"state", Number(row.state)},
                        {"total", Number(row.total())}}}});
  }
  return {{"name", arm.name},
          {"model", arm.model},
          {"version", arm.version},
          {"tokenizer", arm.tokenizer},
          {"prompts", analysis.prompts},
          {"lost", analysis.lost},
          {"ttft_seconds", SummaryJson(analysis.ttft_seconds)},
          {"itl_seconds", SummaryJson(analysis.itl_seconds)},
          {"reused_tokens", analysis.reused_tokens},
          {"recomputed_tokens", analysis.recomputed_tokens},
          {"memory_by_length", memory}};
}

Json MetricJson(const MetricResult& result) {
  const MetricInfo& info = Info(result.metric);
  return {{"metric", info.key},
          {"verdict", VerdictKey(result.decision.verdict)},
          {"outcome", OutcomeKey(OutcomeOf(result))},
          {"more_prompts", result.decision.more_prompts},
          {"prompts", result.prompts},
          {"baseline", Number(result.baseline)},
          {"other", Number(result.other)},
          {"mean", Number(result.mean)},
          {"standard_deviation", Number(result.deviation)},
          {"effect_size", Number(result.effect)},
          {"interval", Ends(result.interval)},
          {"interval_90", Ends(result.equality)},
          {"p_holm", Number(result.p)},
          {"minimum_effect", Number(result.minimum_effect)},
          {"log_ratio", info.unit == MetricUnit::kRatio}};
}

Json PositionsJson(const std::vector<PositionRow>& rows) {
  Json json = Json::array();
  for (const PositionRow& row : rows) {
    json.push_back({{"first", row.first},
                    {"last", row.last},
                    {"prompts", row.prompts},
                    {"kl", Number(row.kl.mean)},
                    {"kl_interval_95", Ends(row.kl.interval)},
                    {"agreement", Number(row.agreement.mean)},
                    {"agreement_interval_95", Ends(row.agreement.interval)}});
  }
  return json;
}

Json LengthsJson(const std::vector<LengthRow>& rows) {
  Json json = Json::array();
  for (const LengthRow& row : rows) {
    json.push_back({{"first", row.first},
                    {"last", row.last},
                    {"shortest", row.shortest},
                    {"longest", row.longest},
                    {"prompts", row.prompts},
                    {"session_tokens", Number(row.tokens)},
                    {"bits_per_byte", Number(row.bits_per_byte.mean)},
                    {"bits_per_byte_interval_95", Ends(row.bits_per_byte.interval)},
                    {"kl", Number(row.kl)},
                    {"agreement", Number(row.agreement)},
                    {"ttft_ratio", Number(row.ttft_ratio)},
                    {"itl_ratio", Number(row.itl_ratio)},
                    {"bytes_ratio", Number(row.bytes_ratio)}});
  }
  return json;
}

Json FlipsJson(const Comparison& comparison, const PairAnalysis& pair) {
  Json json = Json::array();
  for (const Flip& flip : pair.flips) {
    json.push_back({{"prompt", comparison.prompts[flip.prompt].id},
                    {"position", flip.position},
                    {"before", flip.before},
                    {"baseline_choice", flip.baseline_choice},
                    {"other_choice", flip.other_choice},
                    {"after", flip.after},
                    {"kl", Number(flip.kl)}});
  }
  return json;
}

Json PairJson(const Comparison& comparison, const PairAnalysis& pair) {
  Json metrics = Json::array();
  for (const MetricResult& result : pair.metrics) metrics.push_back(MetricJson(result));
  return {{"baseline", comparison.arms[0].name},
          {"other", comparison.arms[pair.other].name},
          {"sentence", PairSentence(comparison, pair)},
          {"verdict", PairVerdictKey(pair.verdict)},
          {"outcome", OutcomeKey(OutcomeOf(comparison, pair))},
          {"more_prompts", pair.more_prompts},
          {"same_tokenizer", pair.same_tokenizer},
          {"lost", pair.lost},
          {"bits_per_byte", Number(pair.bits_per_byte.mean)},
          {"bits_per_byte_interval_95", Ends(pair.bits_per_byte.interval)},
          {"metrics", metrics},
          {"by_position", PositionsJson(pair.positions)},
          {"by_length", LengthsJson(pair.lengths)},
          {"prompts_with_flip", pair.flipped},
          {"median_flip_position", Number(pair.median_flip)},
          {"first_flips", FlipsJson(comparison, pair)}};
}

Json PromptJson(const Comparison& comparison, const PromptRun& prompt) {
  Json arms = Json::array();
  for (size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const ArmRun& run = prompt.arms[arm];
    if (!run.error.empty()) {
      arms.push_back({{"error", run.error}});
      continue;
    }
    Json values;
    for (const Metric metric : kAllMetrics) {
      if (arm == 0) break;
      const double value = ValueOf(comparison, prompt, arm, metric).difference;
      if (!std::isnan(value)) values[std::string(Info(metric).key)] = value;
    }
    Json json = {
        {"tokens", run.tokens.size()},
        {"ttft_seconds", Number(run.ttft_seconds)},
        {"itl_seconds_p50", Number(Percentile(run.itl_seconds, 0.5))},
        {"bytes", {{"kv", run.bytes.kv}, {"window", run.bytes.window}, {"state", run.bytes.state}}},
        {"reused_tokens", run.reused_tokens},
        {"recomputed_tokens", run.recomputed_tokens},
        {"bits_per_byte", Number(run.bits_per_byte)},
        {"text", run.text}};
    if (arm > 0) json["against_baseline"] = values;
    arms.push_back(std::move(json));
  }
  return {{"id", prompt.id}, {"tokens", prompt.tokens}, {"arms", arms}};
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison, const Analysis& analysis) {
  Json json = {{"format", 1},
               {"interim", analysis.interim},
               {"plan", PlanJson(comparison)},
               {"teacher_forced", comparison.teacher_forced},
               {"forced_by", comparison.forced_by},
               {"latency", comparison.latency},
               {"server", comparison.server},
               {"measured_at", comparison.measured_at}};
  json["arms"] = Json::array();
  for (size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    json["arms"].push_back(ArmJson(comparison.arms[arm], analysis.arms[arm]));
  }
  json["pairs"] = Json::array();
  for (const PairAnalysis& pair : analysis.pairs) {
    json["pairs"].push_back(PairJson(comparison, pair));
  }
  json["prompts"] = Json::array();
  for (const PromptRun& prompt : comparison.prompts) {
    json["prompts"].push_back(PromptJson(comparison, prompt));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace longstream::client
