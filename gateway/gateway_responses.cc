// OpenAI's responses: those that a client waits for, and those in the background.
#include <charconv>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/random_id.h"
#include "gateway/call.h"
#include "gateway/errors.h"
#include "gateway/gateway.h"
#include "gateway/http/problem.h"
#include "gateway/responses/new_response.h"
#include "gateway/responses/response_answers.h"
#include "gateway/responses/responses_request.h"
#include "gateway/responses/responses_writer.h"

namespace longstream::gateway {
namespace {

constexpr char kRoute[] = "/v1/responses/{response}";

// The number of the first event that a client wants: the one behind ?starting_after=N.
size_t FirstEvent(const HttpRequest& request) {
  const std::string_view text = request.Query("starting_after");
  if (text.empty()) return 0;
  uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    throw BadRequest("starting_after", "expected the sequence_number of an event, found " +
                                           Shown(Json(std::string(text))));
  }
  return size_t{number} + 1;
}

}  // namespace

std::shared_ptr<void> Gateway::AdmitResponse(Call& call, const Conversation& conversation,
                                             bool background) {
  // Only a caller whom the server knows may make it work before the turn.
  client::Connection connection = turns_.connection().For(call.caller());
  connection.ModelsAndAliases();
  const uint64_t most = options_.http.limits.body_bytes;
  if (conversation.bytes() > most) {
    call.Answer(ProblemAnswer(413,
                              absl::StrCat("the conversation has ", conversation.bytes(),
                                           " bytes with the responses before; at most ", most),
                              "previous_response_id"));
    return nullptr;
  }
  // The answer is one part more.
  if (conversation.parts() >= Conversation::kMostParts) {
    throw BadRequest("previous_response_id",
                     "the conversation has too many responses; send it as"
                     " the input of a new one");
  }
  // A response in the background also keeps its body, and repeats it in events.
  const uint64_t body = background ? call.request().body.size() : 0;
  std::shared_ptr<void> held =
      response_budget_.Take(kResponseCopies * (conversation.bytes() + body) + 1);
  if (held == nullptr)
    call.Answer(BusyAnswer("all responses together take too many bytes; try again"));
  return held;
}

void Gateway::Respond(Call& call) {
  ResponsesRequest read = ReadResponsesRequest(ParseJson(call.request().body));
  NewResponse response;
  response.id = "resp_" + client::RandomId();
  response.caller = call.caller();
  const std::string& owner = call.caller().authorization;
  if (!read.previous_response_id.empty()) {
    client::Connection connection = turns_.connection().For(call.caller());
    auto previous = responses_.Find(connection, read.previous_response_id, owner,
                                    /*with_conversation=*/true);
    if (previous.has_value() && previous->begun != nullptr) {
      previous = GoOnWith(call, read.previous_response_id, *std::move(previous));
    }
    if (!previous.has_value()) {
      return call.Answer(NoResponse(read.previous_response_id, "previous_response_id"));
    }
    if (previous->conversation == nullptr) {
      throw BadRequest("previous_response_id", previous->running
                                                   ? "the response has not ended yet"
                                                   : "the response has failed or was cancelled");
    }
    response.conversation = previous->conversation;
    response.previous = {read.previous_response_id, previous->note};
  }
  response.conversation =
      std::make_shared<Conversation>(std::move(response.conversation), std::move(read.messages));
  std::shared_ptr<void> held;
  if (!read.previous_response_id.empty() || read.background) {
    held = AdmitResponse(call, *response.conversation, read.background);
    if (held == nullptr) return;
  }
  v1::Messages* const messages = read.request.mutable_input()->mutable_messages();
  if (read.instructions.has_value()) {
    v1::Message* const system = messages->add_messages();
    system->set_role("system");
    system->set_content(*read.instructions);
  }
  for (v1::Message& message : response.conversation->Messages()) {
    *messages->add_messages() = std::move(message);
  }
  const int64_t created = absl::ToUnixSeconds(absl::Now());
  response.writer =
      std::make_shared<ResponsesWriter>(response.id, created, read.model, read.repeated);
  ChatTurn turn{read.model, std::move(read.request), read.with_calls, read.stream};
  if (read.background) {
    response.held = std::move(held);
    response.begun.set_model(read.model);
    response.begun.set_with_calls(read.with_calls);
    response.begun.set_created(created);
    response.begun.set_repeated(JsonToText(read.repeated));
    response.begun.set_has_instructions(read.instructions.has_value());
    return RespondInBackground(call, std::move(response), std::move(turn));
  }
  if (read.store) {
    turn.on_end = [&](const EndedTurn& ended, std::vector<v1::Note> notes) {
      ResponseLog::Stored stored{WithReply(response.conversation, ended.reply),
                                 JsonToText(response.writer->response()), nullptr};
      stored.note =
          NoteResponse(response, ended, *stored.conversation, stored.json, std::move(notes));
      responses_.log().Add(response.id, owner, std::move(stored));
    };
  }
  AnswerChat(call, std::move(turn), response.writer);
}

NotePlace Gateway::NoteResponse(const NewResponse& response, const EndedTurn& ended,
                                const Conversation& conversation, const std::string& json,
                                std::vector<v1::Note> notes) {
  const std::string& session = ended.receipt.session_id;
  std::optional<StoredResponses::Made> made = responses_.NoteOf(
      response.id, response.caller.authorization, response.previous, conversation, json, session);
  if (made.has_value()) notes.push_back(std::move(made->note));
  const bool written = PutNotes(response.caller, session, notes);
  return written && made.has_value() ? std::move(made->place) : NotePlace();
}

void Gateway::HandleResponse(Call& call, const std::string& rest) {
  if (absl::EndsWith(rest, kCancelSuffix)) {
    const bool fits = call.Expect("POST");
    call.route = absl::StrCat(kRoute, "/cancel");
    if (fits) CancelResponse(call, rest.substr(0, rest.size() - kCancelSuffix.size()));
    return;
  }
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(call.caller());
  if (call.request().method == "DELETE") {
    call.route = kRoute;
    if (!responses_.Remove(connection, rest, owner)) return call.Answer(NoResponse(rest, ""));
    return call.Answer(Json({{"id", rest}, {"object", "response"}, {"deleted", true}}));
  }
  const bool fits = call.Expect("GET");
  call.route = kRoute;
  if (!fits) return;
  std::optional<ResponseLog::Stored> stored =
      responses_.Find(connection, rest, owner, /*with_conversation=*/false);
  if (stored.has_value() && stored->begun != nullptr) stored = GoOnWith(call, rest, *stored);
  if (!stored.has_value()) return call.Answer(NoResponse(rest, ""));
  const bool streams = WantsStream(call.request()) && call.request().method == "GET";
  if (!streams) return call.Answer(JsonText(stored->json));
  if (stored->begun != nullptr) {
    HttpAnswer elsewhere = ProblemAnswer(
        409, "another gateway makes the response; ask without `stream`, or when it has ended",
        "stream");
    return call.Answer(std::move(elsewhere));
  }
  if (stored->events == nullptr) {
    throw BadRequest("stream", "only responses in the background can be streamed again");
  }
  Follow(call, *stored->events, FirstEvent(call.request()));
}

}  // namespace longstream::gateway
