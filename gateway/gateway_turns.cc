// The turns of chats and completions.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/random_id.h"
#include "gateway/answers/shared_sink.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_writer.h"
#include "gateway/call.h"
#include "gateway/gateway.h"
#include "gateway/http/problem.h"
#include "gateway/openai/chat_request.h"
#include "gateway/openai/chat_writer.h"
#include "gateway/openai/completion_request.h"
#include "gateway/openai/completion_writer.h"
#include "gateway/turns/begun_turns.h"
#include "gateway/turns/run_together.h"

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

// The request of one answer. The only one takes it.
v1::GenerateRequest RequestOf(TurnFields& fields) {
  return fields.choices == 1 ? std::move(fields.request) : fields.request;
}

// The answer to a request for completions, to which several threads add. Thread-safe.
class CompletionAnswer {
 public:
  CompletionAnswer(Call& call, const TurnFields& fields, size_t answers)
      : streams_(fields.stream),
        choices_(fields.choices),
        call_(call),
        writer_(NewHead("cmpl-", fields.model), fields.include_usage, fields.request.log_probs(),
                answers) {}

  // A message of the turn of a choice. False: nobody wants the turn.
  bool Add(size_t index, const v1::GenerateResponse& message) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const std::string& model = message.started().model();
    if (!model.empty()) writer_.NameModel(model);
    if (!streams_) return !call_.gone();
    if (message.has_started()) call_.Begin();
    if (message.has_prefill()) return call_.Send(PrefillComment(message.prefill()));
    return call_.Send(message.has_delta() ? writer_.Piece(index, message.delta()) : "");
  }

  // A choice has ended. `cached_tokens`: as ChatTurn.cached_tokens.
  void End(size_t index, const Generation& generation, std::optional<uint64_t> cached_tokens)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    Usage usage;
    usage.Add(generation);
    if (index % choices_ == 0) {  // each prompt counts once
      usage_.prompt_tokens += usage.prompt_tokens;
      usage_.cached_tokens += cached_tokens.value_or(usage.cached_tokens);
    }
    usage_.completion_tokens += usage.completion_tokens;
    if (streams_) {
      call_.Send(writer_.EndChoice(index, generation.finish.reason()));
    } else {
      writer_.AddChoice(index, generation);
    }
  }

  // All choices have ended.
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!streams_) return call_.Answer(writer_.Whole(usage_));
    call_.Send(writer_.End(usage_));
  }

 private:
  const bool streams_;
  const size_t choices_;  // of each prompt
  absl::Mutex mutex_;
  Call& call_ ABSL_GUARDED_BY(mutex_);
  CompletionWriter writer_ ABSL_GUARDED_BY(mutex_);
  Usage usage_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<void> Gateway::HoldLogProbs(const TurnFields& fields, size_t answers) {
  const v1::GenerateRequest& request = fields.request;
  // An entry of the message, of the generation and of the JSON: a few hundred bytes.
  constexpr uint64_t kBytes = 1200;
  constexpr uint64_t kUnlimited = 32 << 10;  // tokens of an answer without a limit
  uint64_t tokens = request.max_tokens();
  if (tokens == 0) tokens = options_.default_max_tokens;
  if (tokens == 0) tokens = kUnlimited;
  const bool are_kept = request.log_probs() && !fields.stream;
  const uint64_t log_probs = are_kept ? answers * tokens * (1 + request.top_log_probs()) : 0;
  std::shared_ptr<void> held = response_budget_.Take(log_probs * kBytes);
  if (held == nullptr) {
    throw BadRequest("logprobs",
                     "the log-probabilities of a whole answer take too much memory at"
                     " present; ask for fewer tokens (max_tokens), or for a stream");
  }
  return held;
}

ConversationTurn Gateway::WholeTurn(const client::Caller& caller, const std::string& model,
                                    v1::GenerateRequest request) {
  ConversationTurn whole;
  whole.model = model;
  const v1::Messages& messages = request.input().messages();
  // The caches of one caller are not for another one.
  whole.beginning =
      NextKey({}, {caller.authorization, model, messages.tools(), messages.template_arguments()});
  whole.request = std::move(request);
  return whole;
}

Json Gateway::RunChat(const client::Caller& caller, ChatTurn turn, AnswerWriter& writer,
                      EventSink* sink) {
  v1::GenerateRequest& request = turn.request;
  if (request.max_tokens() == 0) request.set_max_tokens(options_.default_max_tokens);
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
  ConversationTurn run = WholeTurn(caller, turn.model, std::move(request));
  run.begun = turn.begun;
  run.only_begun = turn.only_begun;
  if (turn.on_session) {
    run.on_session = [&](const Receipt& begun) { return turn.on_session(begun, run.request); };
  }
  run.streams = sink != nullptr;
  run.reply = [&](const Generation& /*generation*/) {
    last_piece = reader.End();
    return MessageOf(reader.reply());
  };
  std::vector<v1::Note> notes;
  const Generation generation = turns_.Run(caller, run, on_message, &receipt, &notes);
  Usage usage;
  usage.Add(generation);
  usage.thought_tokens = thought_tokens;
  if (turn.cached_tokens.has_value()) {
    usage.cached_tokens = std::min(usage.prompt_tokens, *turn.cached_tokens);
  }
  if (options_.metrics != nullptr) {
    options_.metrics->CountTurn(TextOf(receipt.how), usage.prompt_tokens, usage.cached_tokens);
  }
  const EndedTurn ended{generation, reader.reply(), usage, receipt};
  Json whole = sink == nullptr ? writer.Whole(ended) : Json();
  const std::string last_events = sink == nullptr ? "" : writer.End(ended, last_piece);
  if (turn.on_end) {
    turn.on_end(ended, std::move(notes));
  } else {
    PutNotes(caller, receipt.session_id, notes);
  }
  if (sink != nullptr) sink->Send(last_events);
  return whole;
}

bool Gateway::PutNotes(const client::Caller& caller, const std::string& session_id,
                       const std::vector<v1::Note>& notes) {
  if (notes.empty()) return false;
  const bool written = turns_.PutNotes(caller, session_id, notes);
  if (options_.metrics != nullptr) options_.metrics->CountNotes(written);
  return written;
}

void Gateway::AnswerChat(Call& call, ChatTurn turn, const std::shared_ptr<AnswerWriter>& writer) {
  if (!turn.stream) return call.Answer(RunChat(call.caller(), std::move(turn), *writer, nullptr));
  // An error is written when this function has returned.
  call.StreamErrorsAs([writer](const HttpAnswer& error) { return writer->Error(error); });
  RunChat(call.caller(), std::move(turn), *writer, &call);
}

void Gateway::CompleteChat(Call& call) {
  ChatRequest chat = ReadChatRequest(ParseJson(call.request().body));
  TurnFields& fields = chat.fields;
  ChatWriter writer(NewHead("chatcmpl-", fields.model), fields.include_usage,
                    fields.request.log_probs(), fields.choices);
  if (fields.stream) call.StreamErrorsAs(ErrorEvent);
  const std::shared_ptr<void> held_log_probs = HoldLogProbs(fields, fields.choices);
  const std::shared_ptr<void> held =
      HoldCopies(call, (fields.choices - 1) * fields.request.ByteSizeLong());
  if (held == nullptr) return;
  const ChatTurn turn{fields.model, {}, chat.with_calls, fields.stream, chat.separate_thoughts};
  const std::unique_ptr<BegunTurns> begun = turns_.MakeBegun(call.caller(), fields.choices);
  if (fields.choices > 1) {
    turns_.BeginTogether(call.caller(), WholeTurn(call.caller(), fields.model, fields.request),
                         begun.get());
  }
  SharedSink sink(call);
  Json::array_t choices(fields.choices);
  RunTurns(call, fields.choices, [&](size_t i) {
    ChatTurn one = turn;
    one.request = RequestOf(fields);
    SetSeedOfChoice(i, &one.request);
    one.begun = {begun.get(), i};
    if (i == 0) one.cached_tokens = begun->cached_tokens;
    choices[i] =
        RunChat(call.caller(), std::move(one), writer.choice(i), fields.stream ? &sink : nullptr);
  });
  if (!fields.stream) return call.Answer(writer.Whole(std::move(choices)));
  call.Send(writer.End());
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
  if (fields.stream) call.StreamErrorsAs(ErrorEvent);
  const size_t prompts = completion.prompts.size();
  const size_t answers = prompts * fields.choices;
  const std::shared_ptr<void> held_log_probs = HoldLogProbs(fields, answers);
  uint64_t copied = (answers - 1) * fields.request.ByteSizeLong();
  for (const v1::Input& prompt : completion.prompts) {
    copied += (fields.choices - 1) * prompt.ByteSizeLong();
  }
  const std::shared_ptr<void> held = HoldCopies(call, copied);
  if (held == nullptr) return;
  std::vector<std::unique_ptr<BegunTurns>> begun(prompts);
  for (auto& of_prompt : begun) of_prompt = turns_.MakeBegun(call.caller(), fields.choices);
  RunTurns(call, fields.choices > 1 ? prompts : 0, [&](size_t i) {
    v1::GenerateRequest request = fields.request;
    *request.mutable_input() = completion.prompts[i];
    turns_.BeginAloneTogether(call.caller(), fields.model, request, begun[i].get());
  });
  CompletionAnswer answer(call, fields, answers);
  RunTurns(call, answers, [&](size_t index) {
    const size_t prompt = index / fields.choices;
    const size_t choice = index % fields.choices;
    v1::GenerateRequest request = fields.request;
    *request.mutable_input() = completion.prompts[prompt];
    SetSeedOfChoice(choice, &request);
    const Generation generation = turns_.RunAlone(
        call.caller(), fields.model, request,
        [&](const v1::GenerateResponse& message) { return answer.Add(index, message); },
        {begun[prompt].get(), choice}, fields.stream);
    answer.End(index, generation, begun[prompt]->cached_tokens);
  });
  answer.End();
}

void Gateway::RunTurns(const Call& call, size_t count, const std::function<void(size_t i)>& run) {
  const auto run_or_wait = [&run](size_t i) {
    try {
      run(i);
    } catch (const NoRoomError&) {
      throw NoRoom{std::current_exception()};
    }
  };
  RunTogether(
      count, [this](std::function<void()> work) { return more_turns_.Run(std::move(work)); },
      run_or_wait, [&call] { call.caller().cancellation->Cancel(); });
}

std::shared_ptr<void> Gateway::HoldCopies(Call& call, uint64_t bytes) {
  // The request of a turn is kept, written and read again.
  constexpr uint64_t kCopies = 4;
  if (kCopies * bytes > response_budget_.most()) {
    throw BadRequest("n",
                     absl::StrCat("the answers to a request of this size take ", kCopies * bytes,
                                  " bytes; at most ", response_budget_.most(), "; ask for fewer"));
  }
  std::shared_ptr<void> held = response_budget_.Take(kCopies * bytes);
  if (held == nullptr) {
    call.Answer(
        BusyAnswer("all requests together for several answers take too many bytes; try"
                   " again"));
  }
  return held;
}

}  // namespace longstream::gateway
