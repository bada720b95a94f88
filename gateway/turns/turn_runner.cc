// Chooses the session of a turn, and keeps the index of sessions true.
#include "gateway/turns/turn_runner.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "client/cancellation.h"
#include "client/errors/retries.h"
#include "client/random_id.h"
#include "gateway/notes/conversation_notes.h"
#include "gateway/turns/message_keys.h"

namespace longstream::gateway {
namespace {

using client::Caller;
using client::CallError;
using client::Connection;
using client::Generation;

// How many sessions of its caller a turn that gets none ends before it fails.
constexpr int kMostEnded = 16;
// The same for sessions in the store, which other gateways may use.
constexpr int kMostStoredEnded = 2;
// How long a prompt that several answers share is sent again. Then each answer begins by itself.
constexpr std::chrono::milliseconds kMostAgain{10000};
// How long a turn waits for a session that another replica of a fleet has, or had: it stays there
// for a while (fleet.min_residency). Then it is forked, or the conversation is read again.
constexpr std::chrono::milliseconds kMostComing{7000};
// How long a search for a session is repeated.
constexpr std::chrono::milliseconds kMostSearching{2000};
// How long the end of an answer may wait for its notes.
constexpr std::chrono::seconds kNoteTimeout{5};
// How long a session may take to be opened or forked.
constexpr std::chrono::seconds kOpenTimeout{60};

// Whether the session of the index cannot be used as it was remembered: it is gone, or changed.
bool SessionHasChanged(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::ALREADY_EXISTS:
      return true;
    default:
      return false;
  }
}

bool IsUnavailable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

// Whether a session that others use as well can be forked where it was remembered.
bool HasMoved(const grpc::Status& status) {
  return IsUnavailable(status) ||
         (SessionHasChanged(status) && status.error_code() != grpc::StatusCode::NOT_FOUND);
}

bool LacksMemory(const CallError& error) {
  return error.status().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

[[noreturn]] void ThrowNoRoom(const CallError& error) {
  throw NoRoomError(error.status(), error.request_id());
}

// False: the server has not answered.
bool CloseQuietly(Connection& connection, const std::string& session) {
  try {
    connection.Close(session);
    return true;
  } catch (const CallError& error) {  // it is gone, or goes by itself
    return error.status().error_code() == grpc::StatusCode::NOT_FOUND;
  }
}

// The input of a turn alone.
v1::AppendRequest AppendOf(const v1::GenerateRequest& request) {
  v1::AppendRequest append;
  *append.mutable_input() = request.input();
  append.set_parse_special(request.parse_special());
  return append;
}

// Does what `on_message` does, and notes that a message has come. Both outlive it.
Connection::OnMessage NotingStart(const Connection::OnMessage& on_message, bool* started) {
  return [&on_message, started](const v1::GenerateResponse& message) {
    *started = true;
    return !on_message || on_message(message);
  };
}

void CancelQuietly(Connection& connection, const v1::AppendRequest& append) {
  try {
    connection.CancelTurn(append.session_id(), append.turn_id());
  } catch (const CallError&) {  // there is no such turn, or no server
  }
}

void SetSeconds(std::chrono::seconds seconds, google::protobuf::Duration* duration) {
  duration->set_seconds(seconds.count());
}

}  // namespace

void TurnRunner::CloseSessions(std::chrono::milliseconds timeout) {
  if (options_.durable) return;  // other gateways may go on with them
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < give_up && Close(index_.TakeOldest())) {
  }
}

bool TurnRunner::Close(const std::optional<ConversationIndex::Session>& session) {
  if (!session.has_value()) return false;
  Caller owner;
  owner.authorization = session->owner;
  Connection connection = connection_.For(owner);
  CloseQuietly(connection, session->id);
  return true;
}

Connection TurnRunner::ToOpen(const Caller& caller) const {
  Caller steady = caller;
  steady.cancellation = nullptr;
  steady.timeout = kOpenTimeout;
  return connection_.For(steady);
}

void TurnRunner::Open(const Caller& caller, const std::string& model, const std::string& id) {
  Connection connection = ToOpen(caller);
  v1::OpenSessionRequest request;
  request.set_model(model);
  request.set_session_id(id);
  request.set_durability(options_.durable ? v1::DURABILITY_TURN : v1::DURABILITY_MEMORY);
  SetSeconds(options_.idle_timeout, request.mutable_idle_timeout());
  if (options_.durable) SetSeconds(options_.ttl, request.mutable_ttl());
  for (int ended = 0;; ++ended) {
    try {
      connection.Open(request);
      return;
    } catch (const CallError& error) {
      const bool made_room = LacksMemory(error) &&
                             ended < (options_.durable ? kMostStoredEnded : kMostEnded) &&
                             Close(index_.TakeOldestOf(caller.authorization));
      if (made_room) continue;
      if (LacksMemory(error)) ThrowNoRoom(error);
      if (client::MayHaveBegun(error.status())) CloseQuietly(connection, id);
      throw;
    }
  }
}

bool TurnRunner::Fork(const Caller& caller, const Found& found, Receipt* receipt) {
  v1::ForkSessionRequest request;
  request.set_session_id(found.session_id);
  request.set_new_session_id(receipt->session_id);
  if (!found.turn_id.empty()) request.set_turn_id(found.turn_id);  // otherwise as it is
  SetSeconds(options_.idle_timeout, request.mutable_idle_timeout());
  Connection connection = ToOpen(caller);
  try {
    connection.Fork(request);
  } catch (const CallError& error) {
    if (client::MayHaveBegun(error.status())) CloseQuietly(connection, receipt->session_id);
    // Without memory for a fork there may be some for a new session, when others have ended.
    const bool may_be_new = SessionHasChanged(error.status()) || LacksMemory(error) ||
                            (options_.durable && IsUnavailable(error.status()));
    if (!may_be_new) throw;
    if (error.status().error_code() == grpc::StatusCode::NOT_FOUND) index_.Remove(found.session_id);
    return false;
  }
  receipt->how = Receipt::How::kForked;
  return true;
}

std::optional<TurnRunner::Found> TurnRunner::Find(const Caller& caller,
                                                  const ConversationTurn& turn,
                                                  const std::vector<ConversationKey>& keys) {
  std::optional<Found> found = index_.Find(keys);
  if (!options_.durable) return found;
  // An answer in the rest of the conversation may be that of another gateway.
  const auto& messages = turn.request.input().messages().messages();
  std::vector<Beginning> beginnings;
  for (size_t length = keys.size(); length > (found.has_value() ? found->length : 0); --length) {
    if (messages[static_cast<int>(length) - 1].role() != "assistant") continue;
    beginnings.push_back({keys[length - 1], length});
  }
  if (beginnings.empty()) return found;
  std::optional<Found> noted;
  try {
    Connection connection = connection_.For(caller);
    connection.set_resume_timeout(kMostSearching);
    connection.Repeat([&] { noted = FindConversation(connection, beginnings); });
  } catch (const CallError&) {  // the model reads the rest again
  } catch (...) {
    if (found.has_value() && found->taken) index_.Release(found->session_id);
    throw;
  }
  if (!noted.has_value()) return found;
  if (found.has_value() && found->taken) index_.Release(found->session_id);
  noted->taken = index_.Take({noted->session_id, caller.authorization});
  return noted;
}

Receipt TurnRunner::Begin(const Caller& caller, const ConversationTurn& turn,
                          const std::optional<Found>& found) {
  Receipt receipt;
  receipt.turn_id = client::RandomId();
  if (found.has_value() && found->taken) {
    receipt.session_id = found->session_id;
    receipt.how = Receipt::How::kContinued;
    // Another gateway may have gone on with it meanwhile.
    if (options_.durable) receipt.expected_position = found->position;
    return receipt;
  }
  receipt.session_id = client::RandomId();
  const bool forked = found.has_value() && Fork(caller, *found, &receipt);
  if (!forked) Open(caller, turn.model, receipt.session_id);
  index_.Add({receipt.session_id, caller.authorization});
  return receipt;
}

uint64_t TurnRunner::AppendInput(const Caller& caller, const std::string& session,
                                 v1::AppendRequest append) {
  Connection connection = connection_.For(caller);
  append.set_session_id(session);
  append.set_turn_id(client::RandomId());
  const std::chrono::milliseconds most = std::min(options_.resume_timeout, kMostAgain);
  connection.set_resume_timeout(append.has_expected_position() ? std::max(most, kMostComing)
                                                               : most);
  v1::TurnUsage usage;
  try {
    connection.Repeat([&] { usage = connection.Append(append).usage(); });
  } catch (const CallError& error) {
    // The turn must not run while others use the session.
    if (client::MayHaveBegun(error.status())) CancelQuietly(connection, append);
    throw;
  }
  return usage.reused_tokens() + usage.restored_tokens();
}

void TurnRunner::ForkForOthers(const Caller& caller, const std::string& session, bool indexed,
                               BegunTurns* begun) {
  Found source;
  source.session_id = session;
  for (size_t i = 1; i < begun->size() && !client::IsCancelled(caller); ++i) {
    Receipt fork{client::RandomId(), client::RandomId()};
    if (!Fork(caller, source, &fork)) return;
    if (indexed) index_.Add({fork.session_id, caller.authorization});
    begun->Set(i, std::move(fork));
  }
}

void TurnRunner::BeginTogether(const Caller& caller, const ConversationTurn& turn,
                               BegunTurns* begun) {
  try {
    std::optional<Found> found =
        Find(caller, turn, KeysOf(turn.beginning, turn.request.input().messages()));
    v1::AppendRequest append = AppendOf(turn.request);
    v1::Messages* const messages = append.mutable_input()->mutable_messages();
    messages->set_whole_conversation(true);
    if (!messages->has_add_generation_prompt()) {
      messages->set_add_generation_prompt(!messages->continue_final_message());
    }
    const auto read = [&] {
      Receipt first = Begin(caller, turn, found);
      begun->Set(0, first);
      append.clear_expected_position();
      if (first.expected_position) append.set_expected_position(*first.expected_position);
      begun->cached_tokens = AppendInput(caller, first.session_id, append);
      first.expected_position.reset();
      begun->Set(0, first);
    };
    try {
      read();
    } catch (const CallError& error) {
      const Receipt first = begun->session(0);
      if (!first.expected_position.has_value() || !HasMoved(error.status())) throw;
      GiveUpAfter(caller, first, /*changed=*/true);
      begun->GiveAway(0);
      found->taken = false;
      read();
    }
    ForkForOthers(caller, begun->session(0).session_id, /*indexed=*/true, begun);
  } catch (const CallError&) {
  }
}

void TurnRunner::BeginAloneTogether(const Caller& caller, const std::string& model,
                                    const v1::GenerateRequest& request, BegunTurns* begun) {
  Connection connection = connection_.For(caller);
  const Receipt first{client::RandomId(), client::RandomId()};
  try {
    Open(caller, model, first.session_id);
  } catch (const CallError&) {
    return;
  }
  try {
    begun->cached_tokens = AppendInput(caller, first.session_id, AppendOf(request));
    begun->Set(0, first);
    ForkForOthers(caller, first.session_id, /*indexed=*/false, begun);
  } catch (const CallError&) {
    // A session that has not read the prompt is of no use.
    if (!begun->cached_tokens.has_value()) CloseQuietly(connection, first.session_id);
  }
}

std::unique_ptr<BegunTurns> TurnRunner::MakeBegun(const Caller& caller, size_t answers) {
  return std::make_unique<BegunTurns>(
      answers, [this, caller](const std::vector<Receipt>& receipts) { GiveUp(caller, receipts); });
}

void TurnRunner::GiveUp(const Caller& caller, const std::vector<Receipt>& receipts) {
  for (const Receipt& receipt : receipts) {
    // One that was continued belongs to an earlier answer, too.
    if (receipt.how == Receipt::How::kContinued) {
      index_.Release(receipt.session_id);
    } else {
      index_.Remove(receipt.session_id);
    }
  }
  Connection connection = connection_.For(caller);
  for (const Receipt& receipt : receipts) {
    if (receipt.how == Receipt::How::kContinued) continue;
    // Without an answer of the server the sessions end by themselves.
    if (!CloseQuietly(connection, receipt.session_id)) return;
  }
}

void TurnRunner::GiveUpAfter(const Caller& caller, const Receipt& receipt, bool changed) {
  const bool was_there = receipt.how == Receipt::How::kContinued;
  if (was_there && !changed) return index_.Release(receipt.session_id);
  index_.Remove(receipt.session_id);
  // Another gateway may be going on with it.
  if (was_there && options_.durable) return;
  Connection connection = connection_.For(caller);
  CloseQuietly(connection, receipt.session_id);
}

Generation TurnRunner::GenerateInTime(Connection connection, const v1::GenerateRequest& request,
                                      const Connection::OnMessage& on_message,
                                      bool* started) const {
  connection.set_resume_timeout(std::max(options_.resume_timeout, kMostComing));
  const auto give_up = std::chrono::steady_clock::now() + kMostComing;
  const auto on_lost = [&](const CallError& error) {
    const bool waits =
        *started ? options_.resume_timeout.count() > 0
                 : IsUnavailable(error.status()) && std::chrono::steady_clock::now() < give_up;
    if (!waits) throw CallError(error);
  };
  return connection.Generate(request, NotingStart(on_message, started), on_lost);
}

Generation TurnRunner::Run(const Caller& caller, const ConversationTurn& turn,
                           const Connection::OnMessage& on_message, Receipt* receipt,
                           std::vector<v1::Note>* notes) {
  Connection connection = connection_.For(caller);
  connection.set_collects_log_probs(!turn.streams);
  index_.ForgetUnusedFor(absl::FromChrono(options_.idle_timeout));
  std::vector<ConversationKey> keys = KeysOf(turn.beginning, turn.request.input().messages());
  v1::GenerateRequest request = turn.request;
  request.mutable_input()->mutable_messages()->set_whole_conversation(true);
  std::optional<Found> found;
  if (turn.begun.session() == nullptr) found = Find(caller, turn, keys);
  for (bool is_first = true;; is_first = false) {
    const Receipt* const begun = turn.begun.session();
    *receipt = begun != nullptr ? *begun : Begin(caller, turn, found);
    const bool stays = begun == nullptr && turn.on_session && turn.on_session(*receipt);
    request.set_session_id(receipt->session_id);
    request.set_turn_id(receipt->turn_id);
    request.clear_expected_position();
    if (receipt->expected_position.has_value()) {
      request.set_expected_position(*receipt->expected_position);
    }
    const bool may_come = options_.durable && receipt->how == Receipt::How::kContinued;
    bool started = false;
    try {
      Generation generation = may_come
                                  ? GenerateInTime(connection, request, on_message, &started)
                                  : connection.Generate(request, NotingStart(on_message, &started));
      turn.begun.GiveAway();
      keys.push_back(KeyAfter(keys.empty() ? turn.beginning : keys.back(), turn.reply(generation)));
      const uint64_t position = generation.finish.position();
      index_.Commit(receipt->session_id, receipt->turn_id, keys, position);
      if (options_.durable && notes != nullptr) {
        notes->push_back(NoteOfConversation(keys.back(), receipt->turn_id, position));
      }
      CloseBeyondLimits();
      return generation;
    } catch (const CallError& error) {
      if (begun != nullptr && !started && LacksMemory(error)) ThrowNoRoom(error);
      turn.begun.GiveAway();
      // A new session may be lost too, for example with its server.
      const bool lost = error.status().error_code() == grpc::StatusCode::NOT_FOUND;
      const bool changed =
          receipt->how == Receipt::How::kNew
              ? lost && is_first
              : SessionHasChanged(error.status()) || (may_come && IsUnavailable(error.status()));
      const bool is_new = receipt->how != Receipt::How::kContinued;
      if (stays && is_new && !LacksMemory(error)) {
        index_.Remove(receipt->session_id);
      } else {
        GiveUpAfter(caller, *receipt, changed);
      }
      if (!started && changed && !turn.only_begun) {
        if (may_come && found.has_value() && HasMoved(error.status())) {
          found->taken = false;
        } else {
          found.reset();
        }
        continue;
      }
      if (!started && LacksMemory(error)) ThrowNoRoom(error);
      if (!lost) throw;
      throw CallError(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                   "the server has lost the conversation; try again"));
    } catch (...) {
      turn.begun.GiveAway();
      GiveUpAfter(caller, *receipt, /*changed=*/true);
      throw;
    }
  }
}

void TurnRunner::CloseBeyondLimits() {
  // Sessions in the store take no memory when they are idle, and other requests may refer to them.
  for (auto session = index_.TakeBeyondLimits(); session.has_value();
       session = index_.TakeBeyondLimits()) {
    if (!options_.durable) Close(session);
  }
}

bool TurnRunner::PutNotes(const Caller& caller, const std::string& session_id,
                          const std::vector<v1::Note>& notes) {
  v1::PutNotesRequest request;
  request.set_session_id(session_id);
  for (const v1::Note& note : notes) *request.add_notes() = note;
  Caller steady = caller;
  steady.cancellation = nullptr;  // the client that has left may come back
  steady.timeout = kNoteTimeout;
  Connection connection = connection_.For(steady);
  connection.set_resume_timeout(kMostSearching);
  try {
    connection.Repeat([&] { connection.PutNotes(request); });
    return true;
  } catch (const CallError&) {
    return false;
  }
}

Generation TurnRunner::RunAlone(const Caller& caller, const std::string& model,
                                const v1::GenerateRequest& request,
                                const Connection::OnMessage& on_message, const BegunTurn& begun,
                                bool streams) {
  Connection connection = connection_.For(caller);
  connection.set_collects_log_probs(!streams);
  v1::GenerateRequest named = request;
  while (true) {
    const bool is_begun = begun.session() != nullptr;
    named.set_session_id(is_begun ? begun.session()->session_id : client::RandomId());
    if (is_begun) {
      // A turn that was made again is the same one.
      named.set_turn_id(begun.session()->turn_id);
      named.clear_input();
    } else {
      named.clear_turn_id();
      *named.mutable_input() = request.input();
      Open(caller, model, named.session_id());
    }
    bool started = false;
    try {
      Generation generation = connection.Generate(named, NotingStart(on_message, &started));
      begun.GiveAway();
      CloseQuietly(connection, named.session_id());
      return generation;
    } catch (const CallError& error) {
      if (is_begun && !started && LacksMemory(error)) ThrowNoRoom(error);
      begun.GiveAway();
      CloseQuietly(connection, named.session_id());
      const bool lost = error.status().error_code() == grpc::StatusCode::NOT_FOUND;
      if (is_begun && !started && lost) continue;  // the session is lost
      if (!started && LacksMemory(error)) ThrowNoRoom(error);
      throw;
    } catch (...) {
      begun.GiveAway();
      CloseQuietly(connection, named.session_id());
      throw;
    }
  }
}

}  // namespace longstream::gateway
