// The routes, and what each of them does.
#include "gateway/gateway.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/call.h"
#include "gateway/errors.h"
#include "gateway/http/problem.h"
#include "gateway/page/page_files.h"
#include "service/clock/monotonic_time.h"

namespace longstream::gateway {
namespace {

using client::CallError;

constexpr absl::string_view kModelsPrefix = "/v1/models/";
constexpr absl::string_view kResponsesPrefix = "/v1/responses/";
constexpr absl::string_view kSessionsPrefix = "/longstream/sessions/";

Json ModelJson(const std::string& name, uint64_t context) {
  Json model = {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "longstream"}};
  if (context > 0) model["max_model_len"] = context;
  return model;
}

// Whether a request needs no turn of a model, follows none, and does not wait for the store.
// `durable`: responses are in the store.
bool IsShort(const HttpRequest& request, bool durable) {
  if (WantsStream(request) || request.path.starts_with("/longstream/")) return false;
  if (durable && absl::StartsWith(request.path, kResponsesPrefix)) return false;
  return request.method != "POST" || absl::EndsWith(request.path, kCancelSuffix);
}

}  // namespace

Gateway::Gateway(const Options& options, const client::Connection& connection)
    : options_(options),
      origins_(options.allowed_origins, options.http.listen, options.http.certificates != nullptr),
      turns_(connection, options.turns),
      responses_({options.responses, options.turns.durable, options.http.limits.body_bytes}),
      response_budget_(options.http.max_held_bytes),
      beats_(kBeatPeriod,
             [this](const ResponseBeats::Beating& beating) { NoteBeat(beating, /*left=*/false); }),
      background_(options.max_background),
      more_turns_(options.max_more_turns) {}

Gateway::~Gateway() {
  if (server_ != nullptr) Shutdown(absl::ZeroDuration());
}

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(const Options& options,
                                                        const client::Connection& connection) {
  std::unique_ptr<Gateway> gateway(new Gateway(options, connection));
  HttpServer::Options http = options.http;
  http.is_short = [durable = options.turns.durable](const HttpRequest& request) {
    return IsShort(request, durable);
  };
  if (options.metrics != nullptr) http.metrics = options.metrics->connections();
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      http, [made = gateway.get()](Exchange& exchange) { made->Handle(exchange); });
  if (!server.ok()) return server.status();
  gateway->server_ = *std::move(server);
  return gateway;
}

void Gateway::Shutdown(absl::Duration grace) {
  const MonotonicTime end = MonotonicTime::Now() + grace;
  server_->WaitForAnswers(grace);
  // Responses in the background have the time that is left.
  background_.WaitUntilIdle(std::max(absl::ZeroDuration(), end - MonotonicTime::Now()));
  // Another gateway goes on with those that have notes.
  responses_.log().CancelAll(/*leave=*/options_.turns.durable);
  server_->Shutdown(absl::ZeroDuration());
  background_.WaitUntilIdle(absl::InfiniteDuration());
}

void Gateway::Handle(Exchange& exchange) {
  const MonotonicTime begin = MonotonicTime::Now();
  Call call(exchange);
  try {
    if (const auto refusal = origins_.Refusal(call.request())) {
      throw CallError(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, *refusal));
    }
    call.AddHeaders(origins_.HeadersFor(call.request()));
    if (PageOrigins::IsQuestion(call.request())) {  // browsers ask without a credential
      call.Answer(origins_.AnswerQuestion(call.request()));
    } else if (options_.page && IsPagePath(call.path())) {
      const bool fits = call.Expect("GET");
      call.route = "/page";
      if (fits) call.Answer(PageAnswer(call.path()));
    } else {
      call.ReadCredential(options_.needs_credential);
      Route(call);
    }
  } catch (const BadRequest& error) {
    call.Fail(ProblemAnswer(400, error.what(), error.param()));
  } catch (const CallError& error) {
    call.Fail(ErrorAnswer(error.status()));
  } catch (const std::exception& error) {
    call.Fail(ProblemAnswer(500, error.what()));
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
  } else if (path == "/v1/messages/count_tokens") {
    if (call.Expect("POST")) CountTokens(call);
  } else if (path == "/tokenize") {
    if (call.Expect("POST")) Tokenize(call);
  } else if (path == "/detokenize") {
    if (call.Expect("POST")) Detokenize(call);
  } else if (path == "/v1/responses") {
    if (call.Expect("POST")) Respond(call);
  } else if (absl::StartsWith(path, kResponsesPrefix)) {
    HandleResponse(call, std::string(path.substr(kResponsesPrefix.size())));
  } else if (path == "/v1/models") {
    if (call.Expect("GET")) ListModels(call);
  } else if (path == "/longstream/models") {
    if (call.Expect("GET")) ListLoadedModels(call);
  } else if (path == "/longstream/sessions") {
    if (call.Expect("GET")) ListSessions(call);
  } else if (absl::StartsWith(path, kSessionsPrefix)) {
    HandleSession(call, std::string(path.substr(kSessionsPrefix.size())));
  } else if (path == "/health") {
    if (call.Expect("GET")) CheckHealth(call);
  } else if (absl::StartsWith(path, kModelsPrefix)) {
    const bool fits = call.Expect("GET");
    call.route = "/v1/models/{model}";
    if (fits) DescribeModel(call, Decoded(call.path().substr(kModelsPrefix.size())));
  } else {
    call.Answer(ProblemAnswer(
        404, absl::StrCat("there is no ", path,
                          "; there are /v1/chat/completions, /v1/completions, /v1/responses, "
                          "/v1/messages, /v1/messages/count_tokens, /v1/models, /tokenize, "
                          "/detokenize, /longstream/models, /longstream/sessions and /health")));
  }
}

void Gateway::CheckHealth(Call& call) {
  constexpr std::chrono::milliseconds kTimeout{1000};
  client::Connection connection = turns_.connection().For(call.caller());
  try {
    connection.WaitUntilServing("", kTimeout);
  } catch (const CallError& error) {
    if (HttpStatusOf(error.status()) != 503) throw;
    return call.Answer(BusyAnswer("the server serves no model at present"));
  }
  call.Answer(Json({{"status", "ok"}}));
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
  call.Answer(Json({{"object", "list"}, {"data", std::move(list)}}));
}

void Gateway::DescribeModel(Call& call, std::string_view name) {
  client::Connection connection = turns_.connection().For(call.caller());
  const v1::ListModelsResponse known = connection.ModelsAndAliases();
  for (const v1::Model& model : known.models()) {
    if (model.name() != name) continue;
    return call.Answer(ModelJson(model.name(), model.context_limit()));
  }
  for (const v1::Alias& alias : known.aliases()) {
    if (alias.name() == name) return call.Answer(ModelJson(alias.name(), 0));
  }
  call.Answer(ProblemAnswer(
      404, absl::StrCat("there is no model ", absl::string_view(name.data(), name.size())), "model",
      "model_not_found"));
}

}  // namespace longstream::gateway
