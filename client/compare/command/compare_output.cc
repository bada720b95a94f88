// Prints a comparison for people, and converts it to JSON.
#include "client/compare/command/compare_output.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>

#include "client/commands/commands.h"
#include "client/commands/turn_output.h"
#include "client/output.h"
#include "client/statistics.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

const v1::ComparePairSummary* SummaryOf(const ComparedText& comparison, size_t arm) {
  for (const v1::ComparePairSummary& pair : comparison.finish.pairs()) {
    if (pair.arm() == arm) return &pair;
  }
  return nullptr;
}

// The times between the tokens of an arm, in seconds.
std::vector<double> Intervals(const ComparedText& comparison, size_t arm) {
  std::vector<double> intervals;
  for (const v1::CompareRow& row : comparison.rows) {
    for (const v1::CompareToken& token : row.tokens()) {
      if (token.arm() == arm && token.has_interval())
        intervals.push_back(Seconds(token.interval()));
    }
  }
  return intervals;
}

// The text of an arm. `mark`: inserted before the token with this index. Teacher-forced rows have
// no text, but the bytes of their tokens.
std::string TextOf(const ComparedText& comparison, size_t arm, std::optional<uint64_t> mark,
                   const std::string& mark_text) {
  const bool is_forced = comparison.is_forced();
  std::string text;
  uint64_t index = 0;
  for (const v1::CompareRow& row : comparison.rows) {
    if (mark == index++) text += mark_text;
    for (const v1::CompareToken& token : row.tokens()) {
      if (token.arm() == arm) text += is_forced ? token.token() : token.text();
    }
  }
  return text;
}

Json TokenJson(const v1::CompareToken& token) {
  Json json = {{"arm", token.arm()},
               {"token_id", token.token_id()},
               {"token", token.token()},
               {"text", token.text()},
               {"log_prob", token.log_prob()},
               {"rank", token.rank()},
               {"best_token", token.best_token()}};
  if (token.has_interval()) json["interval_seconds"] = Seconds(token.interval());
  for (const v1::TopToken& top : token.top()) {
    json["top"].push_back(
        {{"token_id", top.token_id()}, {"token", top.token()}, {"log_prob", top.log_prob()}});
  }
  return json;
}

Json PairJson(const v1::ComparePair& pair) {
  return {{"arm", pair.arm()},
          {"kl", pair.kl()},
          {"same_best", pair.same_best()},
          {"delta_p", pair.delta_p()}};
}

Json RowJson(const v1::CompareRow& row) {
  Json json = {{"tokens", Json::array()}, {"pairs", Json::array()}};
  for (const v1::CompareToken& token : row.tokens()) json["tokens"].push_back(TokenJson(token));
  for (const v1::ComparePair& pair : row.pairs()) json["pairs"].push_back(PairJson(pair));
  return json;
}

Json UsageJson(const v1::TurnUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"generated_tokens", usage.generated_tokens()},
          {"reused_tokens", usage.reused_tokens()},
          {"recomputed_tokens", usage.recomputed_tokens()},
          {"queue_seconds", Seconds(usage.queue_time())},
          {"prefill_seconds", Seconds(usage.prefill_time())},
          {"decode_seconds", Seconds(usage.decode_time())},
          {"time_to_first_token_seconds", Seconds(usage.time_to_first_token())},
          {"bytes", BytesJson(usage.bytes())}};
}

Json ArmJson(const ComparedText& comparison, size_t arm) {
  const v1::CompareArmStarted& started = comparison.started.arms(static_cast<int>(arm));
  const v1::CompareArmEnd& end = comparison.ends[arm];
  const Summary intervals = Summarize(Intervals(comparison, arm));
  Json json = {{"model", started.model()},
               {"tokenizer_fingerprint", started.tokenizer_fingerprint()},
               {"comparable", started.comparable()},
               {"not_comparable_reason", started.not_comparable_reason()},
               {"same_prompt", started.same_prompt()},
               {"prompt_tokens", started.prompt_tokens()},
               {"seed", started.seed()},
               {"text", TextOf(comparison, arm, std::nullopt, "")},
               {"code", end.code()},
               {"error", end.error()},
               {"finish_reason", ReasonName(end.reason())},
               {"tokens", end.tokens()},
               {"sum_log_prob", end.sum_log_prob()},
               {"best_tokens", end.best_tokens()},
               {"text_bytes", end.text_bytes()},
               {"bits_per_byte", BitsPerByte(end)},
               {"usage", UsageJson(end.usage())}};
  json["inter_token_milliseconds"] = {{"p50", 1e3 * intervals.p50},
                                      {"p90", 1e3 * intervals.p90},
                                      {"p99", 1e3 * intervals.p99},
                                      {"max", 1e3 * intervals.max}};
  return json;
}

void PrintTexts(const ComparedText& comparison) {
  for (size_t arm = 0; arm < comparison.ends.size(); ++arm) {
    const std::string& model = comparison.started.arms(static_cast<int>(arm)).model();
    const v1::ComparePairSummary* const pair = SummaryOf(comparison, arm);
    std::optional<uint64_t> mark;
    if (pair != nullptr && pair->has_first_difference()) mark = pair->first_difference();
    std::printf("== %zu: %s%s\n", arm, model.c_str(), arm == 0 ? " (baseline)" : "");
    std::printf("%s\n\n", TextOf(comparison, arm, mark, "[[differs from here]]").c_str());
  }
}

void PrintArms(const ComparedText& comparison) {
  const auto first_token = [](const v1::TurnUsage& usage) {
    return usage.generated_tokens() > 0 ? 1e3 * Seconds(usage.time_to_first_token())
                                        : std::numeric_limits<double>::quiet_NaN();
  };
  std::printf("%-18s %7s %9s %9s %9s %9s %10s %10s %10s\n", "arm", "tokens", "TTFT ms", "ITL p50",
              "ITL p90", "bits/byte", "kv", "window", "state");
  for (size_t arm = 0; arm < comparison.ends.size(); ++arm) {
    const v1::CompareArmEnd& end = comparison.ends[arm];
    const Summary intervals = Summarize(Intervals(comparison, arm));
    const v1::SessionBytes& bytes = end.usage().bytes();
    const std::string name =
        std::to_string(arm) + ": " + comparison.started.arms(static_cast<int>(arm)).model();
    std::printf("%-18s %7llu %9s %9s %9s %9s %10s %10s %10s\n", name.c_str(),
                static_cast<unsigned long long>(end.tokens()),
                Number(first_token(end.usage()), "%.1f").c_str(),
                Number(1e3 * intervals.p50, "%.2f").c_str(),
                Number(1e3 * intervals.p90, "%.2f").c_str(),
                Number(BitsPerByte(end), "%.4f").c_str(), HumanBytes(bytes.kv()).c_str(),
                HumanBytes(bytes.window()).c_str(), HumanBytes(bytes.state()).c_str());
    if (end.code() != 0) std::printf("  lost: %s\n", end.error().c_str());
  }
}

void PrintPairs(const ComparedText& comparison) {
  std::printf("\n%-18s %7s %12s %12s %10s  %s\n", "against 0", "tokens", "mean KL", "max KL",
              "same best", "first difference");
  for (size_t arm = 1; arm < comparison.ends.size(); ++arm) {
    const v1::CompareArmStarted& started = comparison.started.arms(static_cast<int>(arm));
    const std::string name = std::to_string(arm) + ": " + started.model();
    const v1::ComparePairSummary* const pair = SummaryOf(comparison, arm);
    if (pair == nullptr) {
      std::printf("%-18s tokens are not comparable: %s\n", name.c_str(),
                  started.not_comparable_reason().c_str());
      continue;
    }
    const auto rows = static_cast<double>(pair->rows());
    const double none = std::numeric_limits<double>::quiet_NaN();
    std::printf(
        "%-18s %7llu %12s %12s %10s  %s\n", name.c_str(),
        static_cast<unsigned long long>(pair->rows()),
        Number(pair->rows() == 0 ? none : pair->sum_kl() / rows, "%.6g").c_str(),
        Number(pair->rows() == 0 ? none : pair->max_kl(), "%.6g").c_str(),
        Number(pair->rows() == 0 ? none : 100 * static_cast<double>(pair->same_best()) / rows,
               "%.1f %%")
            .c_str(),
        pair->has_first_difference() ? std::to_string(pair->first_difference()).c_str() : "none");
  }
}

}  // namespace

Json ToJson(const ComparedText& comparison) {
  Json json = {{"arms", Json::array()}, {"pairs", Json::array()}, {"rows", Json::array()}};
  for (size_t arm = 0; arm < comparison.ends.size(); ++arm) {
    json["arms"].push_back(ArmJson(comparison, arm));
  }
  if (comparison.started.has_answer()) {
    json["answer"] = {{"arm", comparison.started.answer().arm()},
                      {"finish_reason", ReasonName(comparison.started.answer().reason())},
                      {"usage", UsageJson(comparison.started.answer().usage())}};
  }
  for (const v1::ComparePairSummary& pair : comparison.finish.pairs()) {
    Json entry = {{"arm", pair.arm()},
                  {"rows", pair.rows()},
                  {"sum_kl", pair.sum_kl()},
                  {"max_kl", pair.max_kl()},
                  {"same_best", pair.same_best()}};
    if (pair.has_first_difference()) entry["first_difference"] = pair.first_difference();
    json["pairs"].push_back(std::move(entry));
  }
  for (const v1::CompareRow& row : comparison.rows) json["rows"].push_back(RowJson(row));
  return json;
}

void PrintComparison(const ComparedText& comparison) {
  PrintTexts(comparison);
  PrintArms(comparison);
  PrintPairs(comparison);
  FlushOutput();
}

}  // namespace longstream::client
