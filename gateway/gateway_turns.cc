// The turns of chats and completions.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/random_id.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_writer.h"
#include "gateway/call.h"
#include "gateway/gateway.h"
#include "gateway/openai/chat_request.h"
#include "gateway/openai/chat_writer.h"
#include "gateway/openai/completion_request.h"
#include "gateway/openai/completion_writer.h"

namespace longstream::gateway {
namespace {

using client::Generation;

AnswerHead NewHead(const char* prefix, const std::string& model) {
  return {prefix + client::RandomId(), absl::ToUnixSeconds(absl::Now()), model};
}

// A comment, which clients ignore. It tells proxies that the connection lives.
std::string PrefillComment(const v1::PrefillProgress& progress) {
  return absl::StrCat(": prefill ", progress.done_tokens(), " of ", progress.total_tokens(),
                      " tokens\n\n");
}

}  // namespace

std::shared_ptr<void> Gateway::HoldLogProbs(const v1::GenerateRequest& request, size_t prompts) {
  // An entry of the message, of the generation and of the JSON: a few hundred bytes.
  constexpr uint64_t kBytes = 1200;
  constexpr uint64_t kUnlimited = 32 << 10;  // tokens of an answer without a limit
  const uint64_t tokens = request.max_tokens() == 0 ? kUnlimited : request.max_tokens();
  const uint64_t log_probs =
      request.log_probs() ? prompts * tokens * (1 + request.top_log_probs()) : 0;
  std::shared_ptr<void> held = response_budget_.Take(log_probs * kBytes);
  if (held == nullptr) {
    throw BadRequest("logprobs",
                     "the log-probabilities of a whole answer take too much memory at"
                     " present; ask for fewer tokens (max_tokens), or for a stream");
  }
  return held;
}

Json Gateway::RunChat(const client::Caller& caller, ChatTurn turn, AnswerWriter& writer,
                      EventSink* sink) {
  v1::GenerateRequest& request = turn.request;
  if (request.max_tokens() == 0) request.set_max_tokens(options_.default_max_tokens);
  const std::shared_ptr<void> held = HoldLogProbs(request, sink == nullptr ? 1 : 0);
  ReplyReader reader(turn.with_calls);
  bool began = false;
  uint64_t thought_tokens = 0;
  Reply last_piece;
  Receipt receipt;
  const auto on_message = [&](const v1::GenerateResponse& message) {
    const bool is_delta = message.has_delta();
    const bool was_in_thoughts = reader.in_thoughts();
    const Reply piece = is_delta ? reader.Add(message.delta().text()) : Reply();
    if (was_in_thoughts || reader.in_thoughts()) {
      thought_tokens += static_cast<uint64_t>(message.delta().token_ids_size());
    }
    const bool begins = message.has_started() && !std::exchange(began, true);
    if (begins) {
      if (turn.separate_thoughts) reader.SeparateThoughts(message.started().thoughts());
      if (!message.started().model().empty()) writer.NameModel(message.started().model());
    }
    if (sink == nullptr) return true;  // the caller's cancellation ends the turn
    if (begins) {
      sink->Begin();
      return sink->Send(writer.Begin(message.started()));
    }
    if (message.has_prefill()) return sink->Send(PrefillComment(message.prefill()));
    return sink->Send(is_delta ? writer.Piece(message.delta(), piece) : "");
  };
  const v1::Messages& messages = request.input().messages();
  ConversationTurn run;
  run.model = turn.model;
  // The caches of one caller are not for another one.
  run.beginning = NextKey(
      {}, {caller.authorization, turn.model, messages.tools(), messages.template_arguments()});
  run.reply = [&](const Generation& /*generation*/) {
    last_piece = reader.End();
    return MessageOf(reader.reply());
  };
  run.request = std::move(request);
  const Generation generation = turns_.Run(caller, run, on_message, &receipt);
  Usage usage;
  usage.Add(generation);
  usage.thought_tokens = thought_tokens;
  if (options_.metrics != nullptr) {
    options_.metrics->CountTurn(TextOf(receipt.how), usage.prompt_tokens, usage.cached_tokens);
  }
  const EndedTurn ended{generation, reader.reply(), usage, receipt};
  const Json whole = sink == nullptr ? writer.Whole(ended) : Json();
  const std::string last_events = sink == nullptr ? "" : writer.End(ended, last_piece);
  if (turn.on_end) turn.on_end(ended);
  if (sink != nullptr) sink->Send(last_events);
  return whole;
}

void Gateway::AnswerChat(Call& call, ChatTurn turn, const std::shared_ptr<AnswerWriter>& writer) {
  if (!turn.stream) return call.Answer(RunChat(call.caller(), std::move(turn), *writer, nullptr));
  // An error is written when this function has returned.
  call.StreamErrorsAs([writer](const HttpAnswer& error) { return writer->Error(error); });
  RunChat(call.caller(), std::move(turn), *writer, &call);
}

void Gateway::CompleteChat(Call& call) {
  ChatRequest chat = ReadChatRequest(ParseJson(call.request().body));
  auto writer =
      std::make_shared<ChatWriter>(NewHead("chatcmpl-", chat.fields.model),
                                   chat.fields.include_usage, chat.fields.request.log_probs());
  AnswerChat(call,
             {chat.fields.model, std::move(chat.fields.request), chat.with_calls,
              chat.fields.stream, chat.separate_thoughts},
             writer);
}

void Gateway::AnswerMessages(Call& call) {
  call.WriteErrorsAs(MessagesError);
  MessagesRequest messages = ReadMessagesRequest(ParseJson(call.request().body));
  auto writer = std::make_shared<MessagesWriter>("msg_" + client::RandomId(), messages.model);
  AnswerChat(call,
             {messages.model, std::move(messages.request), messages.with_calls, messages.stream},
             writer);
}

void Gateway::Complete(Call& call) {
  CompletionRequest completion = ReadCompletionRequest(ParseJson(call.request().body));
  TurnFields& fields = completion.fields;
  CompletionWriter writer(NewHead("cmpl-", fields.model), fields.include_usage,
                          fields.request.log_probs());
  if (fields.stream) call.StreamErrorsAs(ErrorEvent);
  const std::shared_ptr<void> held =
      HoldLogProbs(fields.request, fields.stream ? 1 : completion.prompts.size());
  Usage usage;
  for (size_t index = 0; index < completion.prompts.size(); ++index) {
    v1::GenerateRequest request = fields.request;
    *request.mutable_input() = std::move(completion.prompts[index]);
    const auto on_message = [&](const v1::GenerateResponse& message) {
      const std::string& model = message.started().model();
      if (!model.empty()) writer.NameModel(model);
      if (!fields.stream) return !call.gone();
      if (message.has_started()) call.Begin();
      if (message.has_prefill()) return call.Send(PrefillComment(message.prefill()));
      return call.Send(message.has_delta() ? writer.Piece(index, message.delta()) : "");
    };
    const Generation generation = turns_.RunAlone(call.caller(), fields.model, request, on_message);
    usage.Add(generation);
    if (fields.stream) {
      call.Send(writer.EndChoice(index, generation.finish.reason()));
    } else {
      writer.AddChoice(index, generation);
    }
  }
  if (!fields.stream) return call.Answer(writer.Whole(usage));
  call.Send(writer.End(usage));
}

}  // namespace longstream::gateway
