// Serves OpenAI's HTTP API with the models of a gRPC server.
#ifndef LONGSTREAM_GATEWAY_GATEWAY_H_
#define LONGSTREAM_GATEWAY_GATEWAY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "gateway/answers/answer_writer.h"
#include "gateway/gateway_metrics.h"
#include "gateway/http/http_server.h"
#include "gateway/responses/response_log.h"
#include "gateway/turns/turn_runner.h"

namespace longstream::gateway {

// Clients know nothing of sessions: they send their whole conversation each time. The gateway finds
// the session that has read its beginning (TurnRunner), so the model reads only what is new.
//
// The header "authorization" of a request goes on to the server, which decides. Thread-safe.
class Gateway {
 public:
  struct Options {
    HttpServer::Options http;
    TurnRunner::Options turns;
    // Of requests that name none; 0: until the model ends its answer or the context is full.
    uint32_t default_max_tokens = 0;
    // Of responses that clients may refer to.
    uint64_t max_response_bytes = uint64_t{256} << 20;
    GatewayMetrics* metrics = nullptr;  // outlives the gateway; null: none
  };

  // `connection`: to the server. Errors as for HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(const Options& options,
                                                        const client::Connection& connection);
  // As Shutdown without time.
  ~Gateway();

  int port() const { return server_->port(); }

  void StopAccepting() { server_->StopAccepting(); }
  // Accepts no further connection, waits for running requests, at most for `grace`, and cancels
  // those that are left.
  void Shutdown(absl::Duration grace) { server_->Shutdown(grace); }

  // Closes the sessions that the gateway keeps, for a server that goes on without it.
  void CloseSessions(std::chrono::milliseconds timeout) { turns_.CloseSessions(timeout); }

 private:
  Gateway(const Options& options, const client::Connection& connection);

  class Call;
  struct ChatTurn {
    std::string model;
    v1::GenerateRequest request;
    bool with_calls = false;  // the model may call functions
    bool stream = false;
    // Called when the turn has ended and the writer has written its end, before the client gets it.
    // May be empty.
    std::function<void(const EndedTurn& ended)> on_end = nullptr;
  };

  void Handle(Exchange& exchange);
  void Route(Call& call);
  void ListModels(Call& call);
  void DescribeModel(Call& call, std::string_view name);
  void CompleteChat(Call& call);
  void Complete(Call& call);
  void AnswerMessages(Call& call);
  void Respond(Call& call);
  void DescribeResponse(Call& call, const std::string& id);
  void CheckHealth(Call& call);
  // Runs a turn with messages, and answers.
  // The writer is shared because the call writes an error after the return.
  void RunChat(Call& call, ChatTurn turn, const std::shared_ptr<AnswerWriter>& shared);

  const Options options_;
  TurnRunner turns_;
  ResponseLog responses_;
  std::unique_ptr<HttpServer> server_;  // the last member: its threads use the others
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_GATEWAY_H_
