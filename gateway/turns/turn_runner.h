// Runs the turns of clients that know nothing of sessions.
#ifndef LONGSTREAM_GATEWAY_TURNS_TURN_RUNNER_H_
#define LONGSTREAM_GATEWAY_TURNS_TURN_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "gateway/conversations/conversation_index.h"
#include "gateway/conversations/conversation_key.h"
#include "gateway/turns/begun_turns.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// A turn with a whole conversation.
struct ConversationTurn {
  std::string model;
  v1::GenerateRequest request;  // without a session and a turn; input.messages has all messages
  // The key of everything about the conversation but its messages: model, tools, arguments.
  ConversationKey beginning{};
  // The message that a client repeats in its next request for this answer.
  std::function<v1::Message(const client::Generation& generation)> reply;
  // Its session, if BeginTogether has made one; otherwise it finds or opens one.
  BegunTurn begun = {};
  // It runs there or not at all.
  bool only_begun = false;
  // Called when it has found or opened a session, before the turn runs there; perhaps again with
  // another session. Returns whether the session stays if the turn fails for another reason than
  // a lack of memory. Empty: it does not.
  std::function<bool(const Receipt& receipt)> on_session = {};
  // Whether `on_message` takes the log-probabilities: Generation.log_probs has none then.
  bool streams = false;
};

// The server has no room for the turn, or for its session, at present. The turn has not started,
// and a begun session is as it was.
class NoRoomError : public client::CallError {
 public:
  using client::CallError::CallError;
};

// Thread-safe. Calls throw client::CallError.
class TurnRunner {
 public:
  struct Options {
    ConversationIndex::Limits limits;
    std::chrono::seconds idle_timeout{600};  // of sessions that no request uses
    // Whether each turn is stored before its answer ends. Then an answer survives the server, and
    // goes on at another replica; and all gateways of the server find the session of a
    // conversation (gateway/notes). Needs a server with a store.
    bool durable = false;
    std::chrono::seconds ttl{86400};  // of durable sessions that no turn uses
    // How long a turn that was lost is sent again. 0: a lost turn fails.
    std::chrono::milliseconds resume_timeout{60000};
  };

  // `connection`: to the server, without a caller.
  TurnRunner(client::Connection connection, const Options& options)
      : connection_(std::move(connection)), options_(options), index_(options.limits) {
    connection_.set_resume_timeout(options.resume_timeout);
  }

  // Continues the session that has read the most of the conversation, or forks it, or opens a new
  // one. `on_message` as for Connection::Generate. `receipt` is complete when the first message
  // comes. With Options::durable, adds the note to `notes` with which all gateways find the
  // session; PutNotes writes it.
  client::Generation Run(const client::Caller& caller, const ConversationTurn& turn,
                         const client::Connection::OnMessage& on_message, Receipt* receipt,
                         std::vector<v1::Note>* notes = nullptr);
  // Writes notes of the session of a turn that has ended. False: that was not possible.
  bool PutNotes(const client::Caller& caller, const std::string& session_id,
                const std::vector<v1::Note>& notes);

  // Reads the messages once and makes sessions for several turns with them, which share the memory
  // of what was read. After a CallError, which is dropped, fewer sessions are made: a turn without
  // one meets the error itself, if it does not pass. `begun`: of MakeBegun.
  void BeginTogether(const client::Caller& caller, const ConversationTurn& turn, BegunTurns* begun);

  // Runs a turn on a session of its own, which ends with it. `begun`: the session, if
  // BeginAloneTogether has made one. `streams`: as ConversationTurn.streams.
  client::Generation RunAlone(const client::Caller& caller, const std::string& model,
                              const v1::GenerateRequest& request,
                              const client::Connection::OnMessage& on_message,
                              const BegunTurn& begun = {}, bool streams = false);
  // As BeginTogether, for turns that run alone.
  void BeginAloneTogether(const client::Caller& caller, const std::string& model,
                          const v1::GenerateRequest& request, BegunTurns* begun);
  // For so many answers of a caller. Must not outlive the runner.
  std::unique_ptr<BegunTurns> MakeBegun(const client::Caller& caller, size_t answers);

  // Closes the sessions of conversations that no request uses, as far as there is time. Those in
  // the store stay.
  void CloseSessions(std::chrono::milliseconds timeout);

  // The session has ended by another call.
  void Forget(const std::string& session_id) { index_.Remove(session_id); }

  const ConversationIndex& index() const { return index_; }
  const client::Connection& connection() const { return connection_; }

 private:
  using Found = ConversationIndex::Found;

  // The session that has read the most of the conversation.
  std::optional<Found> Find(const client::Caller& caller, const ConversationTurn& turn,
                            const std::vector<ConversationKey>& keys);
  // Returns the session of a turn, which the turn uses from now on: the one that was found, if it
  // is taken, otherwise a fork of it or a new one.
  Receipt Begin(const client::Caller& caller, const ConversationTurn& turn,
                const std::optional<Found>& found);
  // For calls that open sessions. A client that leaves does not cancel them: then it would not be
  // known whether there is a session to close.
  client::Connection ToOpen(const client::Caller& caller) const;
  // Adds an input to a session. Tries again if the server is lost. Returns how many tokens of the
  // whole were in the caches.
  uint64_t AppendInput(const client::Caller& caller, const std::string& session,
                       v1::AppendRequest append);
  // Ends sessions that no turn has taken.
  void GiveUp(const client::Caller& caller, const std::vector<Receipt>& receipts);
  // Forks the session, as it is, for all turns but the first, while that works. `indexed`: the
  // index gets the forks.
  void ForkForOthers(const client::Caller& caller, const std::string& session, bool indexed,
                     BegunTurns* begun);
  // False: the session cannot be forked there.
  bool Fork(const client::Caller& caller, const Found& found, Receipt* receipt);
  // While there is no room for a session, ends unused sessions of the same caller.
  void Open(const client::Caller& caller, const std::string& model, const std::string& id);
  // Generates on a session that other gateways may use. Waits for it as long as kMostComing says.
  // `connection`: of the turn. `started`: set when the first message comes.
  client::Generation GenerateInTime(client::Connection connection,
                                    const v1::GenerateRequest& request,
                                    const client::Connection::OnMessage& on_message,
                                    bool* started) const;
  // Ends the sessions that are beyond the limits of the index.
  void CloseBeyondLimits();
  // Closes a session that the index has forgotten. False: there is none.
  bool Close(const std::optional<ConversationIndex::Session>& session);
  // The turn of this session has failed. `changed`: the session was not as it was remembered.
  void GiveUpAfter(const client::Caller& caller, const Receipt& receipt, bool changed);

  client::Connection connection_;
  const Options options_;
  ConversationIndex index_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_TURN_RUNNER_H_
