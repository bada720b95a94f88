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
  }
  return "";
}

}  // namespace

void TurnMeter::AddPrompt(uint64_t tokens) {
  usage_.prompt_tokens += tokens;
  if (metrics_ != nullptr) metrics_->AddPromptTokens(tokens);
  if (arm_ != nullptr) arm_->AddPromptTokens(tokens);
}

void TurnMeter::TakeCaches(uint64_t reused, uint64_t restored, uint64_t recomputed,
                           const std::string& reason) {
  usage_.reused_tokens = reused;
  usage_.restored_tokens = restored;
  usage_.recomputed_tokens = recomputed;
  if (recomputed > 0) usage_.recompute_reason = reason;
  if (metrics_ != nullptr) metrics_->AddReusedTokens(reused);
  if (metrics_ != nullptr) metrics_->AddRestoredTokens(restored);
  if (metrics_ != nullptr) metrics_->AddRecomputedTokens(recomputed);
}

void TurnMeter::Begin(MonotonicTime now) {
  if (begun_.has_value()) return;
  begun_ = prefilled_ = now;
  usage_.queue_time = now - arrival_;
  if (metrics_ != nullptr) metrics_->ObserveQueue(absl::ToDoubleSeconds(usage_.queue_time));
}

void TurnMeter::FinishPrefill() {
  usage_.prefill_time = prefilled_ - *begun_;
  if (metrics_ != nullptr) metrics_->ObservePrefill(absl::ToDoubleSeconds(usage_.prefill_time));
}

void TurnMeter::ObserveToken(MonotonicTime now) {
  if (follows_) return;
  if (usage_.generated_tokens == 0) {
    const double seconds = absl::ToDoubleSeconds(usage_.time_to_first_token);
    if (metrics_ != nullptr) metrics_->ObserveTimeToFirstToken(seconds);
    if (arm_ != nullptr) arm_->ObserveTimeToFirstToken(seconds);
  } else {
    const double seconds = absl::ToDoubleSeconds(now - last_token_);
    if (metrics_ != nullptr) metrics_->ObserveInterTokenLatency(seconds);
    if (arm_ != nullptr) arm_->ObserveInterTokenLatency(seconds);
  }
}

void TurnMeter::AddToken(MonotonicTime now) {
  if (usage_.generated_tokens == 0) usage_.time_to_first_token = now - arrival_;
  ObserveToken(now);
  last_token_ = now;
  usage_.decode_time = now - prefilled_;
  ++usage_.generated_tokens;
  if (metrics_ != nullptr) metrics_->AddGeneratedTokens(1);
  if (arm_ != nullptr) arm_->AddGeneratedTokens(1);
}

void TurnMeter::ForceToken(bool drawn_differs) {
  ++usage_.forced_tokens;
  if (drawn_differs && metrics_ != nullptr) metrics_->CountResumeMismatch();
}

void TurnMeter::Finish(const std::optional<SessionBytes>& bytes) {
  if (bytes.has_value()) {
    usage_.bytes = *bytes;
    if (metrics_ != nullptr)
      metrics_->ObserveSessionBytes(bytes->kv + bytes->window + bytes->state);
  }
  if (usage_.generated_tokens > 0) {
    if (metrics_ != nullptr) metrics_->ObserveDecode(absl::ToDoubleSeconds(usage_.decode_time));
  }
  // The turn has waited for its first place all the time.
  if (admitted_ && !begun_.has_value()) usage_.queue_time = MonotonicTime::Now() - arrival_;
}

void TurnMeter::End(const TurnEnd& end) {
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - arrival_);
  const std::string code = absl::StatusCodeToString(end.status.code());
  if (metrics_ != nullptr && !follows_) metrics_->ObserveEndToEnd(seconds);
  if (metrics_ != nullptr) metrics_->CountRequest(code, NameOf(end.reason));
  if (arm_ == nullptr) return;
  if (!follows_) arm_->ObserveEndToEnd(seconds);
  arm_->CountRequest(code, NameOf(end.reason));
}

}  // namespace longstream
