// Responses in the background: those that this gateway makes, and those that another one has begun.
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
// A gateway that makes a response writes its end, or begins its turn again, within this time. Then
// another one may go on with it.
constexpr absl::Duration kEndPatience = absl::Seconds(2);
// The same for the begin of the turn behind the note, by the clocks of two machines.
constexpr absl::Duration kBeginPatience = absl::Seconds(10);
constexpr absl::Duration kAskPeriod = absl::Milliseconds(250);

// Absent: the session has no such turn.
std::optional<v1::Turn> TurnOf(client::Connection& connection, const std::string& session,
                               const std::string& turn_id) {
  for (v1::Turn& turn : connection.Turns(session)) {
    if (turn.turn_id() == turn_id) return std::move(turn);
  }
  return std::nullopt;
}

// Whether the turn runs, or will be begun by the gateway that has written its note.
bool Runs(client::Connection& connection, const ResponseLog::Stored& stored,
          const std::optional<v1::Turn>& turn) {
  if (!turn.has_value()) return absl::Now() - stored.begun_at < kBeginPatience;
  if (turn->running()) return true;
  if (turn->state() != v1::TURN_STATE_STARTED) return false;
  // Only the replica that has the session knows whether a turn runs there.
  const v1::Session session = connection.Get(stored.note.session_id);
  return !session.owner().empty() && !session.owner_ended();
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
  const std::shared_ptr<ResponsesWriter> writer = response.writer;
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

bool Gateway::WasDeletedElsewhere(const NewResponse& response) {
  client::Caller steady = response.caller;
  steady.cancellation = nullptr;
  client::Connection connection = turns_.connection().For(steady);
  try {
    return responses_.WasDeleted(connection, response.id, steady.authorization);
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
  if (!is_there && has_note) {
    client::Connection connection = turns_.connection().For(response.caller);
    responses_.Remove(connection, response.id, owner);
  }
}

void Gateway::RunInBackground(const NewResponse& response, ChatTurn turn, ResponseStream& events,
                              absl::Notification& noted) {
  ResponsesWriter& writer = *response.writer;
  std::string noted_session = response.noted_session;
  events.SetNoted(!noted_session.empty());
  events.OnBegin([&] { responses_.log().Update(response.id, JsonToText(writer.InProgress())); });
  turn.on_session = [&](const Receipt& receipt, const v1::GenerateRequest& request) {
    noted_session = NoteBegun(response, receipt, request);
    events.SetNoted(!noted_session.empty());
    if (!noted.HasBeenNotified()) noted.Notify();
    return !noted_session.empty();  // it has the note of the response
  };
  turn.on_end = [&](const EndedTurn& ended, std::vector<v1::Note> notes) {
    EndInBackground(response, noted_session, ended, std::move(notes));
  };
  const auto fail = [&](const HttpAnswer& error, bool cancelled) {
    const std::string last = cancelled ? writer.Cancel() : writer.Fail(error);
    const std::string json = JsonToText(writer.response());
    responses_.log().End(response.id, nullptr, json);
    // One that this gateway has left goes on at another one.
    if (events.left()) return;
    if (!noted_session.empty() && !WasDeletedElsewhere(response)) {
      const std::string& owner = response.caller.authorization;
      PutNotes(response.caller, noted_session,
               {StoredResponses::NoteOfFailed(response.id, owner, json)});
    }
    events.Send(last);
  };
  try {
    RunChat(response.caller, std::move(turn), writer, &events);
  } catch (const CallError& error) {
    // Another gateway may have cancelled the turn for the client.
    const bool cancelled = error.status().error_code() == grpc::StatusCode::CANCELLED;
    fail(ErrorAnswer(error.status()), cancelled || events.cancelled());
  } catch (const std::exception& error) {
    fail(ProblemAnswer(500, error.what()), events.cancelled());
  }
  events.OnBegin({});
  events.End();
  responses_.log().CountEvents(response.id);
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

NewResponse Gateway::BegunElsewhere(const Call& call, const std::string& id,
                                    const ResponseLog::Stored& stored) {
  NewResponse response;
  response.id = id;
  response.caller = call.caller();
  response.begun = *stored.begun;
  response.begun.clear_request();
  response.noted_session = stored.note.session_id;
  const v1::Messages& all = stored.begun->request().input().messages();
  std::vector<v1::Message> messages(all.messages().begin(), all.messages().end());
  if (stored.begun->has_instructions() && !messages.empty()) messages.erase(messages.begin());
  response.conversation = std::make_shared<Conversation>(nullptr, std::move(messages));
  response.writer = std::make_shared<ResponsesWriter>(
      id, stored.begun->created(), stored.begun->model(), ParseJson(stored.begun->repeated()));
  return response;
}

void Gateway::TakeOver(const Call& call, const std::string& id, const ResponseLog::Stored& stored) {
  NewResponse response = BegunElsewhere(call, id, stored);
  constexpr uint64_t kCopies = 6;  // as for AdmitResponse
  response.held = response_budget_.Take(kCopies * response.conversation->bytes() + 1);
  if (response.held == nullptr) return;  // a later request tries again
  response.taken = std::make_shared<BegunTurns>(1, [](const std::vector<Receipt>&) {});
  Receipt receipt{stored.note.session_id, stored.begun->turn_id(), Receipt::How::kContinued};
  if (stored.begun->has_expected_position()) {
    receipt.expected_position = stored.begun->expected_position();
  }
  response.taken->Set(0, receipt);
  ChatTurn turn{stored.begun->model(), stored.begun->request(), stored.begun->with_calls()};
  turn.begun = {response.taken.get(), 0};
  StartInBackground(std::make_shared<ResponseStream>(), std::move(response), std::move(turn),
                    std::make_shared<absl::Notification>());
}

std::string Gateway::NoteCancelled(const Call& call, const std::string& id,
                                   const ResponseLog::Stored& stored) {
  const NewResponse response = BegunElsewhere(call, id, stored);
  response.writer->Queue();
  response.writer->Cancel();
  std::string json = JsonToText(response.writer->response());
  PutNotes(call.caller(), stored.note.session_id,
           {StoredResponses::NoteOfFailed(id, call.caller().authorization, json)});
  return json;
}

std::optional<ResponseLog::Stored> Gateway::GoOnWith(const Call& call, const std::string& id,
                                                     ResponseLog::Stored stored) {
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(call.caller());
  std::optional<v1::Turn> turn;
  for (const absl::Time end = absl::Now() + kEndPatience;;) {
    turn = TurnOf(connection, stored.note.session_id, stored.begun->turn_id());
    if (Runs(connection, stored, turn)) return stored;
    if (absl::Now() >= end) break;
    absl::SleepFor(kAskPeriod);
    auto now = responses_.Find(connection, id, owner, /*with_conversation=*/false);
    if (!now.has_value() || now->begun == nullptr) return now;
    stored = *std::move(now);
  }
  if (turn.has_value() && turn->state() == v1::TURN_STATE_ABANDONED) {
    stored.json = NoteCancelled(call, id, stored);
    stored.begun = nullptr;
    return stored;
  }
  {
    const absl::MutexLock lock(&taking_over_);
    if (!responses_.log().Find(id, owner).has_value()) TakeOver(call, id, stored);
  }
  auto taken = responses_.log().Find(id, owner);
  return taken.has_value() ? taken : stored;
}

void Gateway::CancelElsewhere(Call& call, const std::string& id,
                              const ResponseLog::Stored& stored) {
  const std::string& owner = call.caller().authorization;
  client::Connection connection = turns_.connection().For(call.caller());
  try {
    connection.CancelTurn(stored.note.session_id, stored.begun->turn_id());
  } catch (const CallError& error) {
    if (error.status().error_code() != grpc::StatusCode::NOT_FOUND) throw;  // it has not begun
  }
  for (const absl::Time end = absl::Now() + kCancelPatience; absl::Now() < end;) {
    const auto now = responses_.Find(connection, id, owner, /*with_conversation=*/false);
    if (!now.has_value()) return call.Answer(NoResponse(id, ""));
    if (now->begun == nullptr) return call.Answer(JsonText(now->json));
    absl::SleepFor(kAskPeriod);
  }
  call.Answer(JsonText(NoteCancelled(call, id, stored)));
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
