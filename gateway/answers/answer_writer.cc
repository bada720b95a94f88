#include "gateway/answers/answer_writer.h"

#include <algorithm>
#include <utility>

#include "gateway/requests/common_fields.h"

namespace longstream::gateway {

void Usage::Add(const client::Generation& generation) {
  const v1::TurnStarted& started = generation.started;
  const v1::TurnUsage& turn = generation.finish.usage();
  const uint64_t prompt = started.position() + started.prompt_tokens();
  prompt_tokens += prompt;
  cached_tokens += std::min(prompt, turn.reused_tokens() + turn.restored_tokens());
  completion_tokens += turn.generated_tokens();
}

const char* TextOf(Receipt::How how) {
  switch (how) {
    case Receipt::How::kContinued:
      return "continued";
    case Receipt::How::kForked:
      return "forked";
    case Receipt::How::kNew:
      break;
  }
  return "new";
}

Json ReceiptJson(const Receipt& receipt) {
  return {{"session_id", receipt.session_id},
          {"turn_id", receipt.turn_id},
          {"session", TextOf(receipt.how)}};
}

v1::Message MessageOf(const Reply& reply) {
  v1::Message message;
  message.set_role("assistant");
  if (!reply.text.empty() || reply.calls.empty()) message.set_content(reply.text);
  Json calls = Json::array();
  for (const ToolCall& call : reply.calls) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  SetMembers(reply.thoughts, std::move(calls), &message);
  return message;
}

}  // namespace longstream::gateway
