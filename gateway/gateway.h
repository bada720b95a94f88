// Serves OpenAI's HTTP API with the models of a gRPC server.
#ifndef LONGSTREAM_GATEWAY_GATEWAY_H_
#define LONGSTREAM_GATEWAY_GATEWAY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "gateway/answers/answer_writer.h"
#include "gateway/answers/event_sink.h"
#include "gateway/gateway_metrics.h"
#include "gateway/http/handler_threads.h"
#include "gateway/http/http_server.h"
#include "gateway/http/page_origins.h"
#include "gateway/responses/byte_budget.h"
#include "gateway/responses/new_response.h"
#include "gateway/responses/response_beats.h"
#include "gateway/responses/response_log.h"
#include "gateway/responses/response_stream.h"
#include "gateway/responses/stored_responses.h"
#include "gateway/turns/turn_runner.h"

namespace longstream::gateway {

class Call;
struct TurnFields;

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
    bool page = true;  // offer the web page, at "/"
    // Of web pages that may use the server, without an OriginError (service/security/origin.h).
    std::vector<std::string> allowed_origins;
    ResponseLog::Limits responses;  // that clients may refer to
    size_t max_background = 64;     // responses that are made in the background at once
    size_t max_more_turns = 128;    // threads for second and further answers to requests
    // A request without a credential is refused, because the server would take the gateway's own.
    bool needs_credential = false;
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
  void Shutdown(absl::Duration grace);

  // Closes the sessions that the gateway keeps, for a server that goes on without it.
  void CloseSessions(std::chrono::milliseconds timeout) { turns_.CloseSessions(timeout); }

 private:
  Gateway(const Options& options, const client::Connection& connection);

  struct ChatTurn {
    std::string model;
    v1::GenerateRequest request;
    bool with_calls = false;  // the model may call functions
    bool stream = false;
    bool separate_thoughts = true;  // from the text of the answer
    BegunTurn begun = {};           // as ConversationTurn.begun
    bool only_begun = false;
    // Of the prompt, if this turn does not read it first. Absent: those that the turn reports.
    std::optional<uint64_t> cached_tokens = {};
    // Called when the turn has ended and the writer has written its end, before the client gets it,
    // with the notes of the turn, which it writes (PutNotes). Empty: they are written.
    using Notes = std::vector<v1::Note>;
    std::function<void(const EndedTurn& ended, Notes notes)> on_end = nullptr;
    // As ConversationTurn.on_session, with the request of the turn.
    std::function<bool(const Receipt& receipt, const v1::GenerateRequest& request)> on_session =
        nullptr;
  };

  void Handle(Exchange& exchange);
  void Route(Call& call);
  void CheckHealth(Call& call);
  void ListModels(Call& call);
  void DescribeModel(Call& call, std::string_view name);

  // For the web page, as gRPC describes models and sessions (gateway_page.cc).
  void ListLoadedModels(Call& call);
  void ListSessions(Call& call);
  // `rest`: of the path, behind /longstream/sessions/.
  void HandleSession(Call& call, const std::string& rest);
  void DescribeSession(Call& call, const std::string& id);
  void ReadHistory(Call& call, const std::string& id);
  void CloseSession(Call& call, const std::string& id);

  void CompleteChat(Call& call);
  void AnswerMessages(Call& call);
  void Complete(Call& call);
  // Runs the turn of each answer i below `count`, several at once: fewer if the server has no room
  // for them. If one throws, the others are cancelled.
  void RunTurns(const Call& call, size_t count, const std::function<void(size_t i)>& run);
  // For a request of several answers, of which the gateway keeps copies with so many bytes.
  // Answers, and returns null, if there is no memory at present. Throws BadRequest if there never
  // is.
  std::shared_ptr<void> HoldCopies(Call& call, uint64_t bytes);

  // Requests that only need a tokenizer (gateway_tokens.cc).
  void Tokenize(Call& call);
  void Detokenize(Call& call);
  void CountTokens(Call& call);
  // Makes the call. Answers, and returns nullopt, if there is no memory for the tokens.
  std::optional<v1::TokenizeResponse> Tokens(Call& call, const v1::TokenizeRequest& request,
                                             std::shared_ptr<void>* held);

  // The turn without what an answer adds.
  static ConversationTurn WholeTurn(const client::Caller& caller, const std::string& model,
                                    v1::GenerateRequest request);
  // Runs a turn with messages. `sink`: gets the events of the answer; nullptr: returns the answer.
  Json RunChat(const client::Caller& caller, ChatTurn turn, AnswerWriter& writer, EventSink* sink);
  // Writes the notes of a turn. False: there are none, or they could not be written.
  bool PutNotes(const client::Caller& caller, const std::string& session_id,
                const std::vector<v1::Note>& notes);
  // For the log-probabilities of so many answers, unless they are streams. Throws BadRequest if
  // they take too much memory.
  std::shared_ptr<void> HoldLogProbs(const TurnFields& fields, size_t answers);
  // Runs a turn with messages, and answers.
  void AnswerChat(Call& call, ChatTurn turn, const std::shared_ptr<AnswerWriter>& writer);

  void Respond(Call& call);
  // Writes the notes of a response that has ended, and its own. Returns where its own one is;
  // without a session: it has none.
  NotePlace NoteResponse(const NewResponse& response, const EndedTurn& ended,
                         const Conversation& conversation, const std::string& json,
                         std::vector<v1::Note> notes);
  // Answers, and returns null, if the response cannot be begun. Otherwise returns the bytes that it
  // takes.
  std::shared_ptr<void> AdmitResponse(Call& call, const Conversation& conversation,
                                      bool background);
  // Requests about one response. `rest`: what follows /v1/responses/ in the path.
  void HandleResponse(Call& call, const std::string& rest);

  // Responses in the background (gateway_background.cc). With Options::turns.durable a note says,
  // before the client knows of the response, how another gateway can go on with it.
  void RespondInBackground(Call& call, NewResponse response, ChatTurn turn);
  // Returns the answer if the response cannot be begun. `noted`: when its note has been written, or
  // will not be.
  std::optional<HttpAnswer> StartInBackground(const std::shared_ptr<ResponseStream>& events,
                                              NewResponse response, ChatTurn turn,
                                              const std::shared_ptr<absl::Notification>& noted);
  void RunInBackground(const NewResponse& response, ChatTurn turn, ResponseStream& events,
                       absl::Notification& noted);
  // `noted_session`: the session that has the note of the begun response; empty: there is none.
  void EndInBackground(const NewResponse& response, const std::string& noted_session,
                       const EndedTurn& ended, std::vector<v1::Note> notes);
  void FailInBackground(const NewResponse& response, const ResponseBeats::Beating& beating,
                        const HttpAnswer& error, grpc::StatusCode code, ResponseStream& events);
  // Returns the session that has the note of the response; empty: it was not written.
  std::string NoteBegun(const NewResponse& response, const Receipt& receipt,
                        const v1::GenerateRequest& request);
  // Says in a note that this gateway makes the response, or that it has left it.
  void NoteBeat(const ResponseBeats::Beating& beating, bool left);
  bool WasDeletedElsewhere(const NewResponse& response);
  // For a response that another gateway has begun: what it is now. If that gateway has gone, this
  // one makes the response from now on. Absent: it was deleted.
  std::optional<ResponseLog::Stored> GoOnWith(const Call& call, const std::string& id,
                                              ResponseLog::Stored stored);
  void TakeOver(const Call& call, const std::string& id, const ResponseLog::Stored& stored);
  void CancelElsewhere(Call& call, const std::string& id, const ResponseLog::Stored& stored);
  // Returns the JSON of the response.
  std::string NoteCancelled(const Call& call, const std::string& id,
                            const ResponseLog::Stored& stored);
  // How often a gateway says that it makes a response.
  static constexpr absl::Duration kBeatPeriod = absl::Seconds(5);
  void CancelResponse(Call& call, const std::string& id);
  // Sends the events of a response, from this one on, until its end.
  void Follow(Call& call, ResponseStream& stream, size_t from);

  const Options options_;
  const PageOrigins origins_;
  TurnRunner turns_;
  StoredResponses responses_;
  absl::Mutex taking_over_;             // one request at a time takes a response over
  ByteBudget response_budget_;          // for answers that take more memory than their request
  ResponseBeats beats_;                 // of responses in the background
  HandlerThreads background_;           // of responses in the background
  HandlerThreads more_turns_;           // of second and further answers to requests
  std::unique_ptr<HttpServer> server_;  // the last member: its threads use the others
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_GATEWAY_H_
