// A connection to a server, and the calls that the commands make on it.
#ifndef LONGSTREAM_CLIENT_CONNECTION_H_
#define LONGSTREAM_CLIENT_CONNECTION_H_

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

// The exit codes of the program, which --help documents. An interrupted program returns 128 +
// signal number.
enum ExitCode { kOk = 0, kCallFailed = 1, kUsage = 2, kNoServer = 3, kOutputFailed = 4 };

// A call that the server refused or did not answer.
class CallError : public std::runtime_error {
 public:
  // `request_id`: the id of the call in the server's log; may be empty.
  explicit CallError(const grpc::Status& status, const std::string& request_id = "");

  int exit_code() const { return exit_code_; }
  const char* code_name() const;  // "NOT_FOUND"
  const grpc::Status& status() const { return status_; }

 private:
  grpc::Status status_;
  int exit_code_;
};

// The messages of a Generate call.
struct Generation {
  std::string text;
  std::vector<double> token_seconds;  // arrival of each delta with tokens, from the call's start
  std::vector<int> token_counts;      // tokens of each delta
  std::vector<int32_t> token_ids;
  std::vector<v1::TokenLogProb> log_probs;  // one per token id, if requested
  v1::TurnStarted started;
  v1::Finish finish;

  // Adds a message that arrived `seconds` after the call's start.
  void Add(const v1::GenerateResponse& response, double seconds);

  int tokens() const { return static_cast<int>(finish.usage().generated_tokens()); }
};

// Thread-safe. Calls block and throw CallError; an interrupt (client/interrupt.h) cancels them.
class Connection {
 public:
  explicit Connection(const std::string& server);

  // Waits until the server is reachable and serves `model` (empty: serves any model). Throws
  // CallError after `timeout`, and Interruption on an interrupt.
  void WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout);

  std::vector<v1::Model> Models();
  v1::Model Model(const std::string& name);
  v1::Session Open(const std::string& model, const std::string& id = "");
  v1::Session Get(const std::string& id);
  v1::Session Fork(const std::string& id, const std::string& new_id = "");
  // Sends the text in one message.
  v1::AppendResponse Append(const std::string& id, const std::string& text);
  std::vector<v1::Session> Sessions(const std::string& model);
  // An interrupt does not cancel this call, because the program must still close its sessions after
  // an interrupt. Gives up after a few seconds.
  v1::CloseSessionResponse Close(const std::string& id);

  // Calls `on_message` (may be empty) for each message. If it returns false, cancels the call and
  // throws CANCELLED. If it throws, cancels the call and throws that exception.
  using OnMessage = std::function<bool(const v1::GenerateResponse& response)>;
  Generation Generate(const v1::GenerateRequest& request, const OnMessage& on_message = {});

  // Like Generate, but efficient for many calls at once: gRPC's few threads collect the messages,
  // and the calling thread wakes only at the end of its call.
  Generation Collect(const v1::GenerateRequest& request);

  // Returns the summary. Calls `on_piece` (may be empty) for each message.
  using OnPiece = std::function<void(const v1::ScoreResponse& response)>;
  v1::ScoreSummary Score(const v1::ScoreRequest& request, const OnPiece& on_piece = {});

 private:
  struct Stubs;  // defined in connection.cc, because gRPC's call headers take seconds to compile
  std::shared_ptr<Stubs> stubs_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CONNECTION_H_
