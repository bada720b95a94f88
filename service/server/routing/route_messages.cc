// Checks expectations, and copies decisions to messages.
#include "service/server/routing/route_messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/server/routing/wire_times.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

absl::Status CheckCount(const char* field, uint64_t count) {
  if (count <= kMaxRouteTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expect.", field, ": expected at most ", kMaxRouteTokens, ", found ", count));
}

v1::RouteReason ToProto(RouteReason reason) {
  switch (reason) {
    case RouteReason::kLeastTime:
      return v1::ROUTE_REASON_LEAST_TIME;
    case RouteReason::kPreferred:
      return v1::ROUTE_REASON_PREFERRED;
    case RouteReason::kFirstWithin:
      return v1::ROUTE_REASON_FIRST_WITHIN;
    case RouteReason::kLeastExcess:
      return v1::ROUTE_REASON_LEAST_EXCESS;
    case RouteReason::kNotMeasured:
      return v1::ROUTE_REASON_NOT_MEASURED;
    case RouteReason::kNone:
      break;
  }
  return v1::ROUTE_REASON_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<RouteAsk> CheckExpectation(const v1::Expectation& expect) {
  RouteAsk ask;
  ask.prompt_tokens = expect.prompt_tokens();
  ask.prompt_bytes = expect.prompt_bytes();
  ask.max_tokens = expect.max_tokens();
  ask.budgets = BudgetsFrom(expect);
  for (const absl::Status& status :
       {CheckCount("prompt_tokens", ask.prompt_tokens),
        CheckCount("prompt_bytes", ask.prompt_bytes), CheckCount("max_tokens", ask.max_tokens)}) {
    if (!status.ok()) return status;
  }
  const absl::Status budgets = CheckBudgets(ask.budgets);
  if (budgets.ok()) return ask;
  return absl::Status(budgets.code(), absl::StrCat("expect.", budgets.message()));
}

RouteAsk AskFor(const v1::Input& input, uint64_t max_tokens, uint64_t earlier) {
  RouteAsk ask;
  ask.max_tokens = std::min(max_tokens, kMaxRouteTokens);
  uint64_t bytes = input.text().size();
  for (const v1::Message& message : input.messages().messages()) {
    bytes += message.content().size() + message.json().size();
  }
  const auto tokens = static_cast<uint64_t>(input.tokens().ids_size());
  if (bytes == 0) {
    ask.prompt_tokens = earlier + tokens;
  } else if (earlier == 0) {
    ask.prompt_bytes = bytes;
  } else {
    constexpr uint64_t kBytesPerToken = 4;  // about, for most tokenizers and languages
    ask.prompt_tokens = earlier + bytes / kBytesPerToken + 1;
  }
  return ask;
}

void ToProto(const RouteDecision& decision, v1::Routing* message) {
  message->set_reason(ToProto(decision.reason));
  message->set_text(RepairUtf8(decision.text));
  for (const ArmPrediction& arm : decision.arms) {
    v1::ArmPrediction* const added = message->add_arms();
    added->set_model(RepairUtf8(arm.model));
    added->set_measured(arm.measured);
    if (!arm.measured) continue;
    added->set_prompt_tokens(arm.prompt_tokens);
    SetDuration(absl::Seconds(arm.time_to_first_token), added->mutable_time_to_first_token());
    SetDuration(absl::Seconds(arm.time_per_token), added->mutable_time_per_token());
    SetDuration(absl::Seconds(arm.total_time), added->mutable_total_time());
    added->set_session_bytes(arm.session_bytes);
    added->set_exceeds(arm.exceeds);
  }
}

}  // namespace longstream
