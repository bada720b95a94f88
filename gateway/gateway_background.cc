// Responses in the background: those that this gateway makes, and those that another one has begun.
#include <grpcpp/support/status.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gateway/call.h"
#include "gateway/errors.h"
#include "gateway/gateway.h"
#include "gateway/http/problem.h"
#include "gateway/responses/new_response.h"
#include "gateway/responses/response_answers.h"

namespace longstream::gateway {
namespace {

using client::CallError;

// How often a thread that follows a response looks whether its client is still there.
constexpr absl::Duration kLookPeriod = absl::Seconds(5);
// How long a client that cancels a response waits for its end.
constexpr absl::Duration kCancelPatience = absl::Seconds(10);
// How long a client that begins a response waits for its note.
constexpr absl::Duration kNotePatience = absl::Seconds(5);
// How long another gateway that makes a response may have written no note, by the clocks of two
// machines, before this one goes on with it.
constexpr absl::Duration kLostAfter = absl::Seconds(15);
constexpr absl::Duration kAskPeriod = absl::Milliseconds(250);
constexpr std::chrono::seconds kQuestionTimeout{5};

// Absent: the session has no such turn.
std::optional<v1::Turn> TurnOf(client::Connection& connection, const std::string& session,
                               const std::string& turn_id) {
  for (v1::Turn& turn : connection.Turns(session)) {
    if (turn.turn_id() == turn_id) return std::move(turn);
  }
  return std::nullopt;
}

// The writer of a response that another gateway has begun.
std::shared_ptr<ResponsesWriter> WriterOf(const std::string& id, const notes::Begun& begun) {
  return std::make_shared<ResponsesWriter>(id, begun.created(), begun.model(),
                                           ParseJson(begun.repeated()));
}

// The caller for calls that go on if a response is cancelled.
client::Caller SteadyCaller(const client::Caller& caller) {
  client::Caller steady = caller;
  steady.cancellation = nullptr;
  steady.timeout = kQuestionTimeout;
  return steady;
}

}  // namespace

std::optional<HttpAnswer> Gateway::StartInBackground(
    const std::shared_ptr<ResponseStream>& events, NewResponse response, ChatTurn turn,
    const std::shared_ptr<absl::Notification>& noted) {
  const std::string id = response.id;
  const std::string owner = response.caller.authorization;
  events->Send(response.writer->Queue());
  response.caller.cancellation = events->cancellation();
  const std::string queued = JsonToText(response.writer->response());
  if (!responses_.log().Add(id, owner, {nullptr, queued, events, /*running=*/true})) {
    HttpAnswer busy = BusyAnswer(absl::StrCat(options_.responses.running_of_owner,
                                              " responses of this client are being made in the"
                                              " background; try again"));
    busy.status = 429;
    return busy;
  }
  const bool begun = background_.Run(
      [this, events, noted, response = std::move(response), turn = std::move(turn)]() mutable {
        RunInBackground(response, std::move(turn), *events, *noted);
        if (!noted->HasBeenNotified()) noted->Notify();
      });
  if (begun) return std::nullopt;
  responses_.log().Remove(id, owner);
  return BusyAnswer(absl::StrCat(options_.max_background,
                                 " responses are being made in the background; try again"));
}

void Gateway::RespondInBackground(Call& call, NewResponse response, ChatTurn turn) {
  const auto events = std::make_shared<ResponseStream>();
  const auto noted = std::make_shared<absl::Notification>();
  const bool follow = turn.stream;
  const std::string id = response.id;
  const std::string& owner = call.caller().authorization;
  auto refused = StartInBackground(events, std::move(response), std::move(turn), noted);
  if (refused.has_value()) return call.Answer(*std::move(refused));
  // The next request about it may reach another gateway.
  if (options_.turns.durable) noted->WaitForNotificationWithTimeout(kNotePatience);
  if (follow) return Follow(call, *events, 0);
  const std::optional<ResponseLog::Stored> stored = responses_.log().Find(id, owner);
  if (!stored.has_value()) return call.Answer(NoResponse(id, ""));
  call.Answer(JsonText(stored->json));
}

std::string Gateway::NoteBegun(const NewResponse& response, const Receipt& receipt,
                               const v1::GenerateRequest& request) {
  notes::Begun begun = response.begun;
  *begun.mutable_request() = request;
  begun.set_turn_id(receipt.turn_id);
  begun.clear_expected_position();
  if (receipt.expected_position.has_value()) {
    begun.set_expected_position(*receipt.expected_position);
  }
  std::optional<v1::Note> note =
      responses_.NoteOfBegun(response.id, response.caller.authorization,
                             JsonToText(response.writer->InProgress()), std::move(begun));
  const bool written =
      note.has_value() && PutNotes(response.caller, receipt.session_id, {*std::move(note)});
  return written ? receipt.session_id : "";
}

void Gateway::NoteBeat(const ResponseBeats::Beating& beating, bool left) {
  PutNotes(beating.caller, beating.session_id,
           {NoteOfBeat(beating.id, beating.caller.authorization, left)});
}

bool Gateway::WasDeletedElsewhere(const NewResponse& response) {
  client::Connection connection = turns_.connection().For(SteadyCaller(response.caller));
  try {
    return responses_.WasDeleted(connection, response.id, response.caller.authorization);
  } catch (const CallError&) {
    return false;
  }
}

void Gateway::EndInBackground(const NewResponse& response, const std::string& noted_session,
                              const EndedTurn& ended, std::vector<v1::Note> notes) {
  const std::string& owner = response.caller.authorization;
  if (!noted_session.empty() && WasDeletedElsewhere(response)) {
    PutNotes(response.caller, ended.receipt.session_id, notes);
    responses_.log().Remove(response.id, owner);
    return;
  }
  Conversation::Ptr conversation = WithReply(response.conversation, ended.reply);
  std::string json = JsonToText(response.writer->response());
  NotePlace note = NoteResponse(response, ended, *conversation, json, std::move(notes));
  const bool has_note = !note.session_id.empty();
  // Without a note of its end the response is only here: others forget that it has begun.
  if (!has_note && !noted_session.empty()) {
    PutNotes(response.caller, noted_session, {NoteOfResponse(response.id, owner, {})});
  }
  const bool is_there =
      responses_.log().End(response.id, std::move(conversation), std::move(json), std::move(note));
  // Its client has deleted it while the note was written.
  if (is_there || !has_note) return;
  client::Connection connection = turns_.connection().For(SteadyCaller(response.caller));
  try {
    responses_.Remove(connection, response.id, owner);
  } catch (const CallError&) {  // it comes back
  }
}

void Gateway::RunInBackground(const NewResponse& response, ChatTurn turn, ResponseStream& events,
                              absl::Notification& noted) {
  ResponsesWriter& writer = *response.writer;
  ResponseBeats::Beating beating{response.id, SteadyCaller(response.caller),
                                 response.noted_session};
  const auto set_session = [&](const std::string& session) {
    // The notes of an earlier session say nothing any more.
    if (!beating.session_id.empty() && beating.session_id != session) {
      PutNotes(beating.caller, beating.session_id,
               {NoteOfResponse(response.id, beating.caller.authorization, {})});
    }
    beating.session_id = session;
    events.SetNoted(!session.empty());
    session.empty() ? beats_.Remove(response.id) : beats_.Set(beating);
  };
  if (!beating.session_id.empty()) {
    NoteBeat(beating, /*left=*/false);
    set_session(beating.session_id);
  }
  events.OnBegin([&] { responses_.log().Update(response.id, JsonToText(writer.InProgress())); });
  turn.on_session = [&](const Receipt& receipt, const v1::GenerateRequest& request) {
    set_session(NoteBegun(response, receipt, request));
    if (!noted.HasBeenNotified()) noted.Notify();
    return !beating.session_id.empty();  // it has the note of the response
  };
  turn.on_end = [&](const EndedTurn& ended, std::vector<v1::Note> notes) {
    beats_.Remove(response.id);
    EndInBackground(response, beating.session_id, ended, std::move(notes));
  };
  try {
    RunChat(response.caller, std::move(turn), writer, &events);
  } catch (const CallError& error) {
    FailInBackground(response, beating, ErrorAnswer(error.status()), error.status().error_code(),
                     events);
  } catch (const std::exception& error) {
    FailInBackground(response, beating, ProblemAnswer(500, error.what()),
                     grpc::StatusCode::INTERNAL, events);
  }
  events.OnBegin({});
  events.End();
  responses_.log().CountEvents(response.id);
}

void Gateway::FailInBackground(const NewResponse& response, const ResponseBeats::Beating& beating,
                               const HttpAnswer& error, grpc::StatusCode code,
                               ResponseStream& events) {
  const std::string& owner = response.caller.authorization;
  const bool is_noted = !beating.session_id.empty();
  beats_.Remove(response.id);
  // One that this gateway leaves, or that another one has begun to make, goes on there.
  const bool goes_on = is_noted && (events.left() || code == grpc::StatusCode::ABORTED);
  if (goes_on && events.left()) NoteBeat(beating, /*left=*/true);
  if (goes_on || (is_noted && WasDeletedElsewhere(response))) {
    responses_.log().Remove(response.id, owner);
    return;
  }
  // Another gateway may have cancelled the turn for the client.
  const bool cancelled = events.cancelled() || code == grpc::StatusCode::CANCELLED;
  ResponsesWriter& writer = *response.writer;
  const std::string last = cancelled ? writer.Cancel() : writer.Fail(error);
  const std::string json = JsonToText(writer.response());
  const bool is_there = responses_.log().End(response.id, nullptr, json);
  if (is_noted && is_there) {
    PutNotes(beating.caller, beating.session_id,
             {StoredResponses::NoteOfFailed(response.id, owner, json)});
  }
  events.Send(last);
}

void Gateway::Follow(Call& call, ResponseStream& stream, size_t from) {
  call.Begin();
  std::string event;
  for (size_t number = from;;) {
    switch (stream.Wait(number, kLookPeriod, &event)) {
      case ResponseStream::Next::kEvent:
        if (!call.Send(event)) return;
        ++number;
        break;
      case ResponseStream::Next::kWait:
        // A comment tells proxies, and this thread, whether the connection lives.
        if (!call.Send(": waiting\n\n")) return;
        break;
      case ResponseStream::Next::kEnd:
        return;
    }
  }
}

void Gateway::TakeOver(const Call& call, const std::string& id, const ResponseLog::Stored& stored) {
  NewResponse response;
  response.id = id;
  response.caller = call.caller();
  response.begun = *stored.begun;
  response.begun.clear_request();
  response.noted_session = stored.note.session_id;
  response.writer = WriterOf(id, *stored.begun);
  const v1::Messages& all = stored.begun->request().input().messages();
  std::vector<v1::Message> messages(all.messages().begin(), all.messages().end());
  if (stored.begun->has_instructions() && !messages.empty()) messages.erase(messages.begin());
  response.conversation = std::make_shared<Conversation>(nullptr, std::move(messages));
  response.held = response_budget_.Take(kResponseCopies * response.conversation->bytes() + 1);
  if (response.held == nullptr) return;  // a later request tries again
  response.taken = std::make_shared<BegunTurns>(1, [](const std::vector<Receipt>&) {});
  Receipt receipt{stored.note.session_id, stored.begun->turn_id(), Receipt::How::kContinued};
  if (stored.begun->has_expected_position()) {
    receipt.expected_position = stored.begun->expected_position();
  }
  response.taken->Set(0, receipt);
  ChatTurn turn{stored.begun->model(), stored.begun->request(), stored.begun->with_calls()};
  turn.begun = {response.taken.get(), 0};
  turn.only_begun = true;
  StartInBackground(std::make_shared<ResponseStream>(), std::move(response), std::move(turn),
                    std::make_shared<absl::Notification>());
}

std::string Gateway::NoteCancelled(const Call& call, const std::string& id,
                                   const ResponseLog::Stored& stored) {
  const std::shared_ptr<ResponsesWriter> writer = WriterOf(id, *stored.begun);
  writer->Queue();
  writer->Cancel();
  std::string json = JsonToText(writer->response());
  PutNotes(call.caller(), stored.note.session_id,
           {StoredResponses::NoteOfFailed(id, call.caller().authorization, json)});
  return json;
}

std::optional<ResponseLog::Stored> Gateway::GoOnWith(const Call& call, const std::string& id,
                                                     ResponseLog::Stored stored) {
  if (absl::Now() - stored.beat < kLostAfter) return stored;
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(SteadyCaller(call.caller()));
  // Another gateway may have been faster.
  auto now = responses_.Find(connection, id, owner, /*with_conversation=*/false);
  if (!now.has_value() || now->begun == nullptr || absl::Now() - now->beat < kLostAfter) return now;
  const auto turn = TurnOf(connection, now->note.session_id, now->begun->turn_id());
  if (turn.has_value() && turn->state() == v1::TURN_STATE_ABANDONED) {
    now->json = NoteCancelled(call, id, *now);
    now->begun = nullptr;
    return now;
  }
  const absl::MutexLock lock(&taking_over_);
  auto taken = responses_.log().Find(id, owner);  // by another request
  if (!taken.has_value()) {
    TakeOver(call, id, *now);
    taken = responses_.log().Find(id, owner);
  }
  return taken.has_value() ? taken : now;
}

void Gateway::CancelElsewhere(Call& call, const std::string& id,
                              const ResponseLog::Stored& stored) {
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(SteadyCaller(call.caller()));
  v1::TurnState state = v1::TURN_STATE_UNSPECIFIED;
  std::optional<ResponseLog::Stored> now = stored;
  for (const absl::Time end = absl::Now() + kCancelPatience; absl::Now() < end;) {
    try {
      if (state == v1::TURN_STATE_UNSPECIFIED) {
        state = connection.CancelTurn(stored.note.session_id, stored.begun->turn_id()).state();
      }
    } catch (const CallError& error) {
      if (error.status().error_code() != grpc::StatusCode::NOT_FOUND) throw;  // it has not begun
    }
    now = responses_.Find(connection, id, owner, /*with_conversation=*/false);
    if (!now.has_value()) return call.Answer(NoResponse(id, ""));
    if (now->begun == nullptr) return call.Answer(JsonText(now->json));
    absl::SleepFor(kAskPeriod);
  }
  // Its gateway is gone.
  if (state == v1::TURN_STATE_ABANDONED) {
    return call.Answer(JsonText(NoteCancelled(call, id, stored)));
  }
  now = GoOnWith(call, id, *now);
  call.Answer(now.has_value() ? JsonText(now->json) : NoResponse(id, ""));
}

void Gateway::CancelResponse(Call& call, const std::string& id) {
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(call.caller());
  std::optional<ResponseLog::Stored> stored =
      responses_.Find(connection, id, owner, /*with_conversation=*/false);
  if (!stored.has_value()) return call.Answer(NoResponse(id, ""));
  if (stored->begun != nullptr) return CancelElsewhere(call, id, *stored);
  if (stored->events == nullptr) {
    throw BadRequest("", "only responses in the background can be cancelled");
  }
  if (stored->running) {
    stored->events->Cancel();
    stored->events->WaitForEnd(kCancelPatience);
    stored = responses_.log().Find(id, owner);
    if (!stored.has_value()) return call.Answer(NoResponse(id, ""));
  }
  call.Answer(JsonText(stored->json));
}

}  // namespace longstream::gateway
