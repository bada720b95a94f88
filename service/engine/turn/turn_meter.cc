// Counts tokens and measures times of one turn.
#include "service/engine/turn/turn_meter.h"

#include <string_view>

#include "absl/status/status.h"

namespace longstream {
namespace {

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kAborted:
      return "aborted";
    case FinishReason::kFormat:
      return "format";
  }
  return "";
}

}  // namespace

void TurnMeter::AddPrompt(uint64_t tokens) {
  usage_.prompt_tokens += tokens;
  OfAll([&](auto& metrics) { metrics.AddPromptTokens(tokens); });
}

void TurnMeter::TakeCaches(const FoundCaches& found, uint64_t recomputed,
                           const std::string& reason) {
  usage_.reused_tokens = found.reused;
  usage_.restored_tokens = found.restored;
  usage_.restore_source = found.source;
  usage_.recomputed_tokens = recomputed;
  if (recomputed > 0) usage_.recompute_reason = reason;
  OfModel([&](ModelMetrics& metrics) {
    metrics.AddReusedTokens(found.reused);
    metrics.AddRestoredTokens(found.restored, found.source == RestoreSource::kPeer);
    metrics.AddRecomputedTokens(recomputed);
  });
}

void TurnMeter::Begin(MonotonicTime now) {
  if (begun_.has_value()) return;
  begun_ = prefilled_ = now;
  usage_.queue_time = now - arrival_;
  const double seconds = absl::ToDoubleSeconds(usage_.queue_time);
  OfModel([&](ModelMetrics& metrics) { metrics.ObserveQueue(seconds); });
}

void TurnMeter::FinishPrefill() {
  usage_.prefill_time = prefilled_ - *begun_;
  const double seconds = absl::ToDoubleSeconds(usage_.prefill_time);
  OfModel([&](ModelMetrics& metrics) { metrics.ObservePrefill(seconds); });
}

void TurnMeter::ObserveToken(MonotonicTime now) {
  if (follows_) return;
  if (usage_.generated_tokens == 0) {
    const double seconds = absl::ToDoubleSeconds(usage_.time_to_first_token);
    OfAll([&](auto& metrics) { metrics.ObserveTimeToFirstToken(seconds); });
  } else {
    const double seconds = absl::ToDoubleSeconds(now - last_token_);
    OfAll([&](auto& metrics) { metrics.ObserveInterTokenLatency(seconds); });
  }
}

void TurnMeter::AddToken(MonotonicTime now) {
  if (usage_.generated_tokens == 0) usage_.time_to_first_token = now - arrival_;
  ObserveToken(now);
  last_token_ = now;
  usage_.decode_time = now - prefilled_;
  ++usage_.generated_tokens;
  OfAll([](auto& metrics) { metrics.AddGeneratedTokens(1); });
}

void TurnMeter::ForceToken(bool drawn_differs) {
  ++usage_.forced_tokens;
  if (drawn_differs) OfModel([](ModelMetrics& metrics) { metrics.CountResumeMismatch(); });
}

void TurnMeter::Finish(const std::optional<SessionBytes>& bytes) {
  if (bytes.has_value()) {
    usage_.bytes = *bytes;
    const uint64_t total = bytes->kv + bytes->window + bytes->state;
    OfModel([&](ModelMetrics& metrics) { metrics.ObserveSessionBytes(total); });
  }
  if (usage_.generated_tokens > 0) {
    const double seconds = absl::ToDoubleSeconds(usage_.decode_time);
    OfModel([&](ModelMetrics& metrics) { metrics.ObserveDecode(seconds); });
  }
  // The turn has waited for its first place all the time.
  if (admitted_ && !begun_.has_value()) usage_.queue_time = MonotonicTime::Now() - arrival_;
}

void TurnMeter::End(const TurnEnd& end) {
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - arrival_);
  const std::string code = absl::StatusCodeToString(end.status.code());
  OfAll([&](auto& metrics) {
    if (!follows_) metrics.ObserveEndToEnd(seconds);
    metrics.CountRequest(code, NameOf(end.reason));
  });
}

}  // namespace longstream
