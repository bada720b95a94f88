// A session at a server, for programs that talk to a model: docs/cpp.md.
#ifndef LONGSTREAM_CLIENT_SESSION_H_
#define LONGSTREAM_CLIENT_SESSION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/connection.h"

namespace longstream::client {

// One message of a user, as the input of a turn. The model needs a chat template (v1::Model.chat).
v1::Messages UserMessage(std::string_view text);

// A session that this object has opened, or one that was there. The server keeps its tokens and the
// model's caches; the object has only the id. It makes its calls on a copy of the connection, so
// the connection may end before it.
//
// The destructor closes a session that the object has opened, unless Keep() was called. It blocks
// until the server has answered, at most 5 s. It does not throw: see set_on_close_failed. A session
// that is not closed ends after its idle timeout or, in a store, after its ttl.
//
// Errors: calls block and throw CallError. If the connection or the server is lost, they go on by
// themselves for Connection::resume_timeout(): each turn and each new session has an id, so none
// happens twice. A rewind may be made twice. Only Close and CancelTurn make a single call. An
// address that has never accepted a connection is an error at once (Connection::WaitUntilServing
// waits for a server that starts).
//
// Threads: the calls may run at the same time, but a session runs one turn at a time; a second one
// fails with ABORTED. Moving, Keep, Close and set_on_close_failed need exclusive access.
class Session {
 public:
  // Opens a session on a model or an alias; empty: on the server's only model.
  Session(const Connection& connection, const std::string& model);
  // `request`: its session_id is drawn if it is empty.
  Session(const Connection& connection, v1::OpenSessionRequest request);
  // Goes on with the session `id`, for example that of an earlier program. The destructor leaves it
  // open. Throws NOT_FOUND.
  static Session Attach(const Connection& connection, const std::string& id);

  ~Session();
  // An object that was moved from may only be assigned to or destroyed, and closes nothing.
  Session(Session&& other) noexcept;
  // The object first closes its own session, as the destructor does.
  Session& operator=(Session&& other) noexcept;

  // Name it for Attach: 32 hexadecimal digits.
  const std::string& id() const { return id_; }
  // The session as it was when this object was made.
  const v1::Session& opened() const { return opened_; }

  // Runs a turn: adds UTF-8 text or new messages, then generates. `options`: sampling, max_tokens,
  // stop and so on; session_id and input are set here. Calls `on_text` (may be empty) on this
  // thread for each piece of the answer, never twice for the same piece. If it throws, cancels the
  // turn, which then adds nothing to the session unless options.on_abort says so, and throws that
  // exception.
  //
  // A program that may itself be killed sets options.turn_id to a RandomId() that it has saved. The
  // same call with the same id then gives the same answer from its beginning.
  using OnText = std::function<void(std::string_view text)>;
  Generation Generate(std::string_view text, v1::GenerateRequest options = {},
                      const OnText& on_text = {});
  Generation Generate(const v1::Messages& messages, v1::GenerateRequest options = {},
                      const OnText& on_text = {});
  // As Connection::Generate, on this session: for other inputs, and for all that the messages say.
  Generation Generate(v1::GenerateRequest request, const Connection::OnMessage& on_message = {},
                      const Connection::OnLost& on_lost = {});

  // Adds input without generating. `request`: one message with the whole input.
  v1::AppendResponse Append(std::string_view text);
  v1::AppendResponse Append(v1::AppendRequest request);

  // Opens a second session with the same history, now, after a turn or at a position (in tokens).
  // Its object closes it as if it had opened it, whatever becomes of this one. `request`: also for
  // another model; session_id is set here, new_session_id is drawn if it is empty.
  Session Fork(v1::ForkSessionRequest request = {});
  Session ForkAtTurn(const std::string& turn_id);
  Session ForkAtPosition(uint64_t position);

  // Goes back to the end of a turn, or to a position; 0 is the empty session. Returns the session
  // as it is then.
  v1::Session RewindToTurn(const std::string& turn_id);
  v1::Session RewindToPosition(uint64_t position);

  // Asks the server. The position is the number of tokens in the session.
  v1::Session Info();
  uint64_t Position() { return Info().position(); }
  std::vector<v1::Turn> Turns();
  // The texts that the turns have read and written, in their order (Connection::History).
  std::vector<v1::HistoryEntry> History();

  // Cancels a turn that runs in another thread or program, and waits until it has ended. The turn
  // adds nothing to the session, unless its on_abort says so. NOT_FOUND: there is no such turn (a
  // turn that was just sent may not have arrived yet).
  v1::Turn CancelTurn(const std::string& turn_id);

  // The destructor leaves the session open.
  void Keep() { closes_ = false; }
  // Closes the session, also one that is kept. The destructor then does nothing, even if this call
  // fails: DEADLINE_EXCEEDED after 5 s, NOT_FOUND if the session has ended already.
  void Close();
  // Called with the error if the destructor cannot close the session; it must not throw. Forks
  // inherit it.
  using OnCloseFailed = std::function<void(const std::string& id, const CallError& error)>;
  void set_on_close_failed(OnCloseFailed on_close_failed) {
    on_close_failed_ = std::move(on_close_failed);
  }

 private:
  explicit Session(const Connection& connection) : connection_(connection) {}

  // Makes the session `id` by `open`, and closes it from then on.
  void Make(const std::string& id, const std::function<v1::Session()>& open);
  void CloseUnlessKept();

  Connection connection_;
  std::string id_;
  v1::Session opened_;
  bool closes_ = false;  // the destructor does
  OnCloseFailed on_close_failed_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_SESSION_H_
