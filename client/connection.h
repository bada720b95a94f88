// A connection to a server, and the calls of the service. Most programs want a Session
// (client/session.h).
#ifndef LONGSTREAM_CLIENT_CONNECTION_H_
#define LONGSTREAM_CLIENT_CONNECTION_H_

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "client/channel.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

// The exit codes of the program, which --help documents. An interrupted program returns 128 +
// signal number.
enum ExitCode { kOk = 0, kCallFailed = 1, kUsage = 2, kNoServer = 3, kOutputFailed = 4 };

// A call that the server refused or did not answer.
class CallError : public std::runtime_error {
 public:
  explicit CallError(const grpc::Status& status, std::string request_id = "");

  int exit_code() const { return exit_code_; }
  std::string code_name() const;  // "NOT_FOUND"
  const grpc::Status& status() const { return status_; }
  // The id of the call in the server's log. Empty: the server has not answered.
  const std::string& request_id() const { return request_id_; }
  // The time after which the server wants the same call again. Absent: it does not say.
  std::optional<std::chrono::milliseconds> retry_after() const;
  // The address of the server that has the session, to which the same call may be sent. Empty:
  // another error.
  std::string session_address() const;

 private:
  grpc::Status status_;
  std::string request_id_;
  int exit_code_;
};

// The messages of a Generate call.
struct Generation {
  std::string text;
  std::vector<double> token_seconds;  // arrival of each delta with tokens, from the call's start
  std::vector<int> token_counts;      // tokens of each delta
  std::vector<int32_t> token_ids;
  std::vector<v1::TokenLogProb> log_probs;  // one per token id, if requested
  std::vector<v1::TwinRow> twin_rows;       // from the first token id on, if the turn has a twin
  v1::TurnStarted started;
  v1::Finish finish;
  uint64_t position = 0;  // of the last delta; 0: there was none

  // Adds a message that arrived `seconds` after the call's start.
  void Add(const v1::GenerateResponse& response, double seconds);

  int tokens() const { return static_cast<int>(finish.usage().generated_tokens()); }
};

class Cancellation;

// The caller of a call, for a program that makes the calls of many.
struct Caller {
  std::string authorization;  // the header of that name; empty: the channel's own, if any
  std::string request_id;     // the header x-request-id; empty: the server draws one
  Cancellation* cancellation = nullptr;  // cancels the calls; outlives them; nullptr: nothing does
  std::chrono::milliseconds timeout{0};  // of each call; 0: none
};

// Thread-safe. Calls block and throw CallError; an interrupt (client/interrupt.h) cancels them.
class Connection {
 public:
  // Connects at the first call. Throws std::invalid_argument as MakeChannel does
  // (client/channel.h).
  explicit Connection(const std::string& server, const ChannelSecurity& security = {});
  // Makes its calls to a server in this process. Its channel is always connected, and gRPC ends the
  // process if it is asked whether it is.
  static Connection InProcess(std::shared_ptr<grpc::Channel> channel);

  // Makes the calls of this caller on the same channel.
  Connection For(Caller caller) const;

  // Waits until the server is reachable and serves `model` (empty: serves any model). Throws
  // CallError after `timeout` or if the server could not load the model, and Interruption on an
  // interrupt.
  void WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout);

  // The same for the model of a session. Throws NOT_FOUND if the server has no such session.
  void WaitUntilSessionServes(const std::string& id, std::chrono::milliseconds timeout);

  // Waits until the server is reachable and lists its models, which may all be loading or failed.
  // Throws CallError after `timeout`, and Interruption on an interrupt.
  v1::ListModelsResponse WaitForModels(std::chrono::milliseconds timeout);

  v1::ListModelsResponse ModelsAndAliases();
  std::vector<v1::Model> Models();
  v1::Model Model(const std::string& name);
  v1::Session Open(const std::string& model, const std::string& id = "");
  v1::Session Open(const v1::OpenSessionRequest& request);
  v1::Session Get(const std::string& id);
  v1::Session Fork(const std::string& id, const std::string& new_id = "");
  v1::Session Fork(const v1::ForkSessionRequest& request);
  // Returns to the end of a turn, or to a position.
  v1::Session RewindToTurn(const std::string& id, const std::string& turn);
  v1::Session RewindToPosition(const std::string& id, uint64_t position);
  v1::Session Rewind(const v1::RewindSessionRequest& request);
  // Sends the text in one message.
  v1::AppendResponse Append(const std::string& id, const std::string& text);
  v1::AppendResponse Append(const v1::AppendRequest& request);
  std::vector<v1::Session> Sessions(const std::string& model, const std::string& alias = "");
  v1::ListSessionsResponse SessionsPage(const v1::ListSessionsRequest& request);
  // An interrupt does not cancel this call, because the program must still close its sessions after
  // an interrupt. Gives up after a few seconds.
  v1::CloseSessionResponse Close(const std::string& id);

  // Reads a session out. Calls `on_bytes` for each piece of the file; it may throw.
  void Export(const std::string& id, bool sealed,
              const std::function<void(std::string_view)>& on_bytes);
  // Makes a session of the file that `next_bytes` reads piece by piece; no bytes: its end.
  // `request`: without data.
  v1::Session Import(const v1::ImportSessionRequest& request,
                     const std::function<std::string()>& next_bytes);

  // Runs a turn. Draws an id for it if the request has none. If the connection or the server is
  // lost, sends the request again, with the tokens that have arrived, until the turn goes on; so
  // each token comes once (client/errors/retries.h). Gives up when nothing new has come for
  // resume_timeout(), if the error is that of a model that could not be loaded, and at the first
  // error if the address has never accepted a connection.
  //
  // Calls `on_message` (may be empty) for each message; a resumed turn has another `started`. If it
  // returns false, cancels the turn and throws CANCELLED. If it throws, cancels the turn and throws
  // that exception. Calls `on_lost` (may be empty) each time before it tries to resume the turn.
  using OnMessage = std::function<bool(const v1::GenerateResponse& response)>;
  using OnLost = std::function<void(const CallError& error)>;
  Generation Generate(const v1::GenerateRequest& request, const OnMessage& on_message = {},
                      const OnLost& on_lost = {});
  // 0: Generate and Repeat make one call.
  void set_resume_timeout(std::chrono::milliseconds timeout) { resume_timeout_ = timeout; }
  std::chrono::milliseconds resume_timeout() const { return resume_timeout_; }
  // False: Generation.log_probs stays empty, for a program that takes them from the messages.
  void set_collects_log_probs(bool collects) { collects_log_probs_ = collects; }

  // Makes a call that has the same effect however often it is made, such as one with the id of a
  // turn. If it loses the connection or the server, makes it again, by the rules of Generate.
  // Throws the exception of the last call.
  void Repeat(const std::function<void()>& call);

  // Cancels a turn of a session, and waits until it has ended. As Close, no interrupt cancels it.
  v1::Turn CancelTurn(const std::string& session, const std::string& turn);
  std::vector<v1::Turn> Turns(const std::string& session);
  // The texts that the turns of a session have read and written, each of them joined. Begins
  // again if the session changes meanwhile. Throws CallError.
  std::vector<v1::HistoryEntry> History(const std::string& session);

  // Like Generate, but does not resume the turn. Efficient for many calls at once: gRPC's few
  // threads collect the messages, and the calling thread wakes only at the end of its call.
  Generation Collect(const v1::GenerateRequest& request);

  // Returns the summary. Calls `on_piece` (may be empty) for each message.
  using OnPiece = std::function<void(const v1::ScoreResponse& response)>;
  v1::ScoreSummary Score(const v1::ScoreRequest& request, const OnPiece& on_piece = {});

  // Notes of sessions in the store.
  void PutNotes(const v1::PutNotesRequest& request);
  v1::FindNotesResponse FindNotes(const v1::FindNotesRequest& request);

  v1::TokenizeResponse Tokenize(const v1::TokenizeRequest& request);
  v1::DetokenizeResponse Detokenize(const v1::DetokenizeRequest& request);

  // Runs a comparison. Calls `on_message` for each message; it must not throw.
  void Compare(const v1::CompareRequest& request,
               const std::function<void(const v1::CompareResponse& response)>& on_message);

 private:
  Connection(std::shared_ptr<grpc::Channel> channel, bool in_process);

  // Whether the cause of a call's error may pass, so that the call may be made again.
  bool MayPass(const CallError& error);
  // Whether a turn has ended because its model could not be loaded: that does not pass. Asks the
  // server.
  bool ModelWasNotLoaded(const CallError& error);
  // Makes one call of Generate, and adds its messages to the generation.
  void ReadTurn(const v1::GenerateRequest& request, const OnMessage& on_message,
                std::chrono::steady_clock::time_point begin, Generation* generation);

  // Whether an interrupt or the caller has cancelled the calls.
  bool Cancelled() const;

  Caller caller_;
  std::chrono::milliseconds resume_timeout_{60000};
  bool collects_log_probs_ = true;
  struct Stubs;  // defined in connection.cc, because gRPC's call headers take seconds to compile
  std::shared_ptr<Stubs> stubs_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CONNECTION_H_
