// The routes, and what each of them does.
#include "gateway/gateway.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cancellation.h"
#include "client/random_id.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_writer.h"
#include "gateway/errors.h"
#include "gateway/http/problem.h"
#include "gateway/openai/chat_request.h"
#include "gateway/openai/chat_writer.h"
#include "gateway/openai/completion_request.h"
#include "gateway/openai/completion_writer.h"
#include "gateway/responses/responses_request.h"
#include "gateway/responses/responses_writer.h"
#include "service/clock/monotonic_time.h"

namespace longstream::gateway {
namespace {

using client::CallError;
using client::Generation;

constexpr absl::string_view kModelsPrefix = "/v1/models/";
constexpr absl::string_view kResponsesPrefix = "/v1/responses/";

// The credential of a request as it came. OpenAI's clients send it as gRPC's do; others have a
// header of their own.
std::string CredentialOf(const HttpRequest& request) {
  const std::string_view standard = request.Header("authorization");
  if (!standard.empty()) return std::string(standard);
  for (const char* const name : {"x-api-key", "api-key"}) {
    const std::string_view key = request.Header(name);
    if (!key.empty()) return absl::StrCat("Bearer ", absl::string_view(key.data(), key.size()));
  }
  return "";
}

// The credential of a request. It goes into the metadata of calls. gRPC ends the process if they
// have other characters, and refuses calls if they are long.
std::string AuthorizationOf(const HttpRequest& request) {
  constexpr size_t kMost = 4096;
  std::string credential = CredentialOf(request);
  const bool usable = std::all_of(credential.begin(), credential.end(),
                                  [](char c) { return c >= ' ' && c <= '~'; });
  if (usable && credential.size() <= kMost) return credential;
  throw CallError(grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                               "the credential is too long, or has a character that none has"));
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string RequestIdOf(const HttpRequest& request) {
  constexpr size_t kMost = 128;
  const std::string_view given = request.Header("x-request-id");
  const bool usable = !given.empty() && given.size() <= kMost && IsPrintable(given);
  return usable ? std::string(given) : client::RandomId();
}

HttpAnswer JsonAnswer(const Json& json) {
  HttpAnswer answer;
  answer.body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return answer;
}

Json ModelJson(const std::string& name, uint64_t context) {
  Json model = {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "longstream"}};
  if (context > 0) model["max_model_len"] = context;
  return model;
}

AnswerHead NewHead(const char* prefix, const std::string& model) {
  return {prefix + client::RandomId(), absl::ToUnixSeconds(absl::Now()), model};
}

// A comment, which clients ignore. It tells proxies that the connection lives.
std::string PrefillComment(const v1::PrefillProgress& progress) {
  return absl::StrCat(": prefill ", progress.done_tokens(), " of ", progress.total_tokens(),
                      " tokens\n\n");
}

}  // namespace

// One request: its caller, and its answer.
class Gateway::Call {
 public:
  explicit Call(Exchange& exchange) : exchange_(exchange), request_id_(RequestIdOf(request())) {
    caller_.request_id = request_id_;
    caller_.cancellation = &cancellation_;
    exchange_.OnGone([this] { cancellation_.Cancel(); });
  }
  ~Call() { exchange_.OnGone({}); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Throws CallError if the credential cannot be valid.
  void ReadCredential() { caller_.authorization = AuthorizationOf(request()); }

  const HttpRequest& request() const { return exchange_.request(); }
  const client::Caller& caller() const { return caller_; }
  std::string_view path() const { return request().path; }
  bool gone() const { return exchange_.gone(); }
  // For metrics: the status of the answer, or that the client has not waited for it.
  int status() const {
    constexpr int kClientHasLeft = 499;  // as nginx calls it
    return gone() ? kClientHasLeft : status_;
  }
  // For metrics: a path without names of clients.
  std::string route = "other";

  // False: the request has another method; it is answered.
  bool Expect(const std::string& method) {
    route = std::string(path());
    if (request().method == method) return true;
    HttpAnswer answer =
        ProblemAnswer(405, absl::StrCat("the method here is ", method, ", not ", request().method));
    answer.headers.emplace_back("Allow", method);
    Answer(std::move(answer));
    return false;
  }

  void Answer(HttpAnswer answer) {
    status_ = answer.status;
    answer.headers.emplace_back("x-request-id", request_id_);
    exchange_.Answer(answer);
  }
  // Begins a stream of events unless it has begun.
  void BeginEvents() {
    if (!std::exchange(streams_, true)) exchange_.BeginEvents({{"x-request-id", request_id_}});
  }
  // False: the client is gone.
  bool Send(const std::string& event) {
    return event.empty() ? !gone() : exchange_.SendEvent(event);
  }

  // An API has its own form of errors: of whole answers, and of streams that have begun.
  void WriteErrorsAs(std::function<void(HttpAnswer*)> form) { error_form_ = std::move(form); }
  void StreamErrorsAs(std::function<std::string(const HttpAnswer&)> form) {
    stream_error_form_ = std::move(form);
  }

  // Ends a request that has failed. A stream that has begun cannot change its status any more.
  void Fail(HttpAnswer answer) {
    if (error_form_) error_form_(&answer);
    if (!streams_) return Answer(std::move(answer));
    status_ = answer.status;
    if (stream_error_form_) Send(stream_error_form_(answer));
  }

 private:
  Exchange& exchange_;
  const std::string request_id_;
  client::Cancellation cancellation_;
  client::Caller caller_;
  std::function<void(HttpAnswer*)> error_form_;
  std::function<std::string(const HttpAnswer&)> stream_error_form_;
  bool streams_ = false;
  int status_ = 200;
};

Gateway::Gateway(const Options& options, const client::Connection& connection)
    : options_(options),
      turns_(connection, options.turns),
      responses_(options.max_response_bytes) {}

Gateway::~Gateway() = default;

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(const Options& options,
                                                        const client::Connection& connection) {
  std::unique_ptr<Gateway> gateway(new Gateway(options, connection));
  HttpServer::Options http = options.http;
  if (options.metrics != nullptr) http.metrics = options.metrics->connections();
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      http, [made = gateway.get()](Exchange& exchange) { made->Handle(exchange); });
  if (!server.ok()) return server.status();
  gateway->server_ = *std::move(server);
  return gateway;
}

void Gateway::Handle(Exchange& exchange) {
  const MonotonicTime begin = MonotonicTime::Now();
  Call call(exchange);
  try {
    call.ReadCredential();
    Route(call);
  } catch (const BadRequest& error) {
    call.Fail(ProblemAnswer(400, error.what(), error.param()));
  } catch (const CallError& error) {
    call.Fail(ErrorAnswer(error.status()));
  }
  if (options_.metrics == nullptr) return;
  options_.metrics->CountRequest(call.route, call.status(), MonotonicTime::Now() - begin);
  options_.metrics->SetSessions(turns_.index().num_sessions());
}

void Gateway::Route(Call& call) {
  const absl::string_view path(call.path().data(), call.path().size());
  if (path == "/v1/chat/completions") {
    if (call.Expect("POST")) CompleteChat(call);
  } else if (path == "/v1/completions") {
    if (call.Expect("POST")) Complete(call);
  } else if (path == "/v1/messages") {
    if (call.Expect("POST")) AnswerMessages(call);
  } else if (path == "/v1/responses") {
    if (call.Expect("POST")) Respond(call);
  } else if (absl::StartsWith(path, kResponsesPrefix)) {
    DescribeResponse(call, std::string(path.substr(kResponsesPrefix.size())));
  } else if (path == "/v1/models") {
    if (call.Expect("GET")) ListModels(call);
  } else if (path == "/health") {
    if (call.Expect("GET")) CheckHealth(call);
  } else if (absl::StartsWith(path, kModelsPrefix)) {
    const bool fits = call.Expect("GET");
    call.route = "/v1/models/{model}";
    if (fits) DescribeModel(call, call.path().substr(kModelsPrefix.size()));
  } else {
    call.Answer(ProblemAnswer(
        404, absl::StrCat("there is no ", path,
                          "; there are /v1/chat/completions, /v1/completions, /v1/responses, "
                          "/v1/messages, /v1/models and /health")));
  }
}

void Gateway::CheckHealth(Call& call) {
  constexpr std::chrono::milliseconds kTimeout{1000};
  client::Connection connection = turns_.connection().For(call.caller());
  try {
    connection.WaitUntilServing("", kTimeout);
  } catch (const CallError& error) {
    const int status = HttpStatusOf(error.status());
    if (status != 503) throw;
    HttpAnswer answer = ProblemAnswer(status, "the server serves no model at present");
    answer.headers.emplace_back("Retry-After", "1");
    return call.Answer(std::move(answer));
  }
  call.Answer(JsonAnswer({{"status", "ok"}}));
}

void Gateway::ListModels(Call& call) {
  client::Connection connection = turns_.connection().For(call.caller());
  const v1::ListModelsResponse known = connection.ModelsAndAliases();
  Json list = Json::array();
  for (const v1::Model& model : known.models()) {
    if (model.state() != v1::MODEL_STATE_READY) continue;
    list.push_back(ModelJson(model.name(), model.context_limit()));
  }
  for (const v1::Alias& alias : known.aliases()) list.push_back(ModelJson(alias.name(), 0));
  call.Answer(JsonAnswer({{"object", "list"}, {"data", std::move(list)}}));
}

void Gateway::DescribeModel(Call& call, std::string_view name) {
  client::Connection connection = turns_.connection().For(call.caller());
  const v1::ListModelsResponse known = connection.ModelsAndAliases();
  for (const v1::Model& model : known.models()) {
    if (model.name() != name) continue;
    return call.Answer(JsonAnswer(ModelJson(model.name(), model.context_limit())));
  }
  for (const v1::Alias& alias : known.aliases()) {
    if (alias.name() == name) return call.Answer(JsonAnswer(ModelJson(alias.name(), 0)));
  }
  call.Answer(ProblemAnswer(
      404, absl::StrCat("there is no model ", absl::string_view(name.data(), name.size())), "model",
      "model_not_found"));
}

void Gateway::RunChat(Call& call, ChatTurn turn, const std::shared_ptr<AnswerWriter>& shared) {
  AnswerWriter& writer = *shared;
  v1::GenerateRequest& request = turn.request;
  if (request.max_tokens() == 0) request.set_max_tokens(options_.default_max_tokens);
  ReplyReader reader(turn.with_calls);
  if (turn.stream) {
    call.StreamErrorsAs([shared](const HttpAnswer& error) { return shared->Error(error); });
  }
  bool began = false;
  Reply last_piece;
  Receipt receipt;
  const auto on_message = [&](const v1::GenerateResponse& message) {
    const bool is_delta = message.has_delta();
    const Reply piece = is_delta ? reader.Add(message.delta().text()) : Reply();
    if (!turn.stream) return !call.gone();
    if (message.has_started() && !std::exchange(began, true)) {
      call.BeginEvents();
      return call.Send(writer.Begin(message.started()));
    }
    if (message.has_prefill()) return call.Send(PrefillComment(message.prefill()));
    return call.Send(is_delta ? writer.Piece(message.delta(), piece) : "");
  };
  const v1::Messages& messages = request.input().messages();
  ConversationTurn run;
  run.model = turn.model;
  // The caches of one caller are not for another one.
  run.beginning = NextKey({}, {call.caller().authorization, turn.model, messages.tools(),
                               messages.template_arguments()});
  run.reply = [&](const Generation& /*generation*/) {
    last_piece = reader.End();
    return MessageOf(reader.reply());
  };
  run.request = std::move(request);
  const Generation generation = turns_.Run(call.caller(), run, on_message, &receipt);
  Usage usage;
  usage.Add(generation);
  if (options_.metrics != nullptr) {
    options_.metrics->CountTurn(TextOf(receipt.how), usage.prompt_tokens, usage.cached_tokens);
  }
  const EndedTurn ended{generation, reader.reply(), usage, receipt};
  const Json whole = turn.stream ? Json() : writer.Whole(ended);
  const std::string last_events = turn.stream ? writer.End(ended, last_piece) : "";
  if (turn.on_end) turn.on_end(ended);
  if (!turn.stream) return call.Answer(JsonAnswer(whole));
  call.Send(last_events);
}

void Gateway::CompleteChat(Call& call) {
  ChatRequest chat = ReadChatRequest(ParseJson(call.request().body));
  auto writer =
      std::make_shared<ChatWriter>(NewHead("chatcmpl-", chat.fields.model),
                                   chat.fields.include_usage, chat.fields.request.log_probs());
  RunChat(call,
          {chat.fields.model, std::move(chat.fields.request), chat.with_calls, chat.fields.stream},
          writer);
}

void Gateway::AnswerMessages(Call& call) {
  call.WriteErrorsAs(MessagesError);
  MessagesRequest messages = ReadMessagesRequest(ParseJson(call.request().body));
  auto writer = std::make_shared<MessagesWriter>("msg_" + client::RandomId(), messages.model);
  RunChat(call, {messages.model, std::move(messages.request), messages.with_calls, messages.stream},
          writer);
}

HttpAnswer NoResponse(const std::string& id, const char* param) {
  return ProblemAnswer(404,
                       absl::StrCat("there is no response ", id,
                                    "; responses are kept in memory, the last ones within a limit"),
                       param, "previous_response_not_found");
}

void Gateway::Respond(Call& call) {
  ResponsesRequest read = ReadResponsesRequest(ParseJson(call.request().body));
  const std::string& owner = call.caller().authorization;
  ResponseLog::ConversationPtr conversation;
  if (!read.previous_response_id.empty()) {
    conversation = responses_.Find(read.previous_response_id, owner);
    if (conversation == nullptr) {
      return call.Answer(NoResponse(read.previous_response_id, "previous_response_id"));
    }
  }
  conversation = responses_.Extend(std::move(conversation), std::move(read.messages));
  v1::Messages* const messages = read.request.mutable_input()->mutable_messages();
  if (read.instructions.has_value()) {
    v1::Message* const system = messages->add_messages();
    system->set_role("system");
    system->set_content(*read.instructions);
  }
  for (v1::Message& message : conversation->Messages()) {
    *messages->add_messages() = std::move(message);
  }
  const std::string id = "resp_" + client::RandomId();
  auto writer = std::make_shared<ResponsesWriter>(id, absl::ToUnixSeconds(absl::Now()), read.model,
                                                  read.repeated);
  ChatTurn turn{read.model, std::move(read.request), read.with_calls, read.stream};
  if (read.store) {
    turn.on_end = [&](const EndedTurn& ended) {
      responses_.Add(id, owner, responses_.Extend(conversation, {MessageOf(ended.reply)}),
                     writer->response().dump());
    };
  }
  RunChat(call, std::move(turn), writer);
}

void Gateway::DescribeResponse(Call& call, const std::string& id) {
  call.route = "/v1/responses/{response}";
  const std::string& owner = call.caller().authorization;
  if (call.request().method == "DELETE") {
    if (!responses_.Remove(id, owner)) return call.Answer(NoResponse(id, ""));
    return call.Answer(JsonAnswer({{"id", id}, {"object", "response"}, {"deleted", true}}));
  }
  if (!call.Expect("GET")) return;
  call.route = "/v1/responses/{response}";
  std::optional<std::string> json = responses_.FindJson(id, owner);
  if (!json.has_value()) return call.Answer(NoResponse(id, ""));
  HttpAnswer answer;
  answer.body = *std::move(json) + "\n";
  call.Answer(std::move(answer));
}

void Gateway::Complete(Call& call) {
  CompletionRequest completion = ReadCompletionRequest(ParseJson(call.request().body));
  TurnFields& fields = completion.fields;
  CompletionWriter writer(NewHead("cmpl-", fields.model), fields.include_usage,
                          fields.request.log_probs());
  if (fields.stream) call.StreamErrorsAs(ErrorEvent);
  Usage usage;
  for (size_t index = 0; index < completion.prompts.size(); ++index) {
    v1::GenerateRequest request = fields.request;
    *request.mutable_input() = std::move(completion.prompts[index]);
    const auto on_message = [&](const v1::GenerateResponse& message) {
      if (!fields.stream) return !call.gone();
      if (message.has_started()) call.BeginEvents();
      if (message.has_prefill()) return call.Send(PrefillComment(message.prefill()));
      return call.Send(message.has_delta() ? writer.Piece(index, message.delta()) : "");
    };
    const Generation generation = turns_.RunAlone(call.caller(), fields.model, request, on_message);
    usage.Add(generation);
    if (fields.stream) {
      call.Send(writer.EndChoice(index, generation.finish.reason()));
    } else {
      writer.AddChoice(index, generation);
    }
  }
  if (!fields.stream) return call.Answer(JsonAnswer(writer.Whole(usage)));
  call.Send(writer.End(usage));
}

}  // namespace longstream::gateway
