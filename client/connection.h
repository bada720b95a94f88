// A connection to a server, and the calls the commands make on it.
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

// What the program returns; part of its interface (--help). Interrupted, it returns 128 + signal.
enum ExitCode { kOk = 0, kCallFailed = 1, kUsage = 2, kNoServer = 3, kOutputFailed = 4 };

// A call the server refused or did not answer.
class CallError : public std::runtime_error {
 public:
  explicit CallError(const grpc::Status& status);

  int exit_code() const { return exit_code_; }
  const char* code_name() const;  // "NOT_FOUND"
  const grpc::Status& status() const { return status_; }

 private:
  grpc::Status status_;
  int exit_code_;
};

// What a Generate call gave.
struct Generation {
  std::string text;
  std::vector<double> token_seconds;  // arrival of each delta with tokens, from the call's start
  std::vector<int> token_counts;      // tokens of each such delta
  std::vector<int32_t> token_ids;
  std::vector<v1::TokenLogProb> log_probs;  // one per token id, where asked for
  v1::TurnStarted started;
  v1::Finish finish;

  // A message that came so many seconds after the call's start.
  void Add(const v1::GenerateResponse& response, double seconds);

  int tokens() const { return static_cast<int>(finish.usage().generated_tokens()); }
};

// Thread-safe. Calls block and throw CallError; an interrupt (client/interrupt.h) cancels them.
class Connection {
 public:
  explicit Connection(const std::string& server);

  // Waits until the server is reachable and `model` (empty: the server as a whole) serves. An
  // interrupt throws Interruption.
  void WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout);

  std::vector<v1::Model> Models();
  v1::Model Model(const std::string& name);
  v1::Session Open(const std::string& model, const std::string& id = "");
  v1::Session Get(const std::string& id);
  v1::Session Fork(const std::string& id, const std::string& new_id = "");
  // The text in one message.
  v1::AppendResponse Append(const std::string& id, const std::string& text);
  std::vector<v1::Session> Sessions(const std::string& model);
  // Not cancelled by an interrupt, but given up after a few seconds: closing is what follows one.
  v1::CloseSessionResponse Close(const std::string& id);

  // `on_message` may be empty; false cancels the call, which then throws CANCELLED. What it throws
  // is thrown on once the call has been cancelled.
  using OnMessage = std::function<bool(const v1::GenerateResponse& response)>;
  Generation Generate(const v1::GenerateRequest& request, const OnMessage& on_message = {});

  // The same where nobody watches the messages: gRPC's own few threads take them in, and of many
  // calls at a time none wakes its caller before its end.
  Generation Collect(const v1::GenerateRequest& request);

  // The summary; every piece goes to `on_piece` if it is set.
  using OnPiece = std::function<void(const v1::ScoreResponse& response)>;
  v1::ScoreSummary Score(const v1::ScoreRequest& request, const OnPiece& on_piece = {});

 private:
  struct Stubs;  // elsewhere, since the headers of gRPC's calls take seconds to compile
  std::shared_ptr<Stubs> stubs_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CONNECTION_H_
