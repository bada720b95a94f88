// Credentials, ids and errors of requests.
#include "gateway/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/random_id.h"
#include "gateway/http/problem.h"

namespace longstream::gateway {
namespace {

using client::CallError;

// The credential of a request as it came. OpenAI's clients send it as gRPC's do; others have a
// header of their own.
std::string CredentialOf(const HttpRequest& request) {
  const std::string_view standard = request.Header("authorization");
  if (!standard.empty()) {
    // The scheme may be in any case, and callers are told apart by their credentials.
    constexpr size_t kScheme = 7;
    const absl::string_view given(standard.data(), standard.size());
    if (!absl::StartsWithIgnoreCase(given, "bearer ")) return std::string(given);
    return absl::StrCat("Bearer ", absl::StripAsciiWhitespace(given.substr(kScheme)));
  }
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

}  // namespace

Call::Call(Exchange& exchange) : exchange_(exchange), request_id_(RequestIdOf(request())) {
  headers_.emplace_back("x-request-id", request_id_);
  caller_.request_id = request_id_;
  caller_.cancellation = &cancellation_;
  exchange_.OnGone([this] { cancellation_.Cancel(); });
}

Call::~Call() { exchange_.OnGone({}); }

void Call::ReadCredential(bool needed) {
  caller_.authorization = AuthorizationOf(request());
  if (!needed || !caller_.authorization.empty()) return;
  throw CallError(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the request has no credential"));
}

int Call::status() const {
  constexpr int kClientHasLeft = 499;  // as nginx calls it
  return gone() ? kClientHasLeft : status_;
}

bool Call::Expect(const std::string& method) {
  route = std::string(path());
  // The answer to HEAD is that to GET, without the body.
  if (request().method == method || (request().method == "HEAD" && method == "GET")) return true;
  HttpAnswer answer =
      ProblemAnswer(405, absl::StrCat("the method here is ", method, ", not ", request().method));
  answer.headers.emplace_back("Allow", method);
  Answer(std::move(answer));
  return false;
}

void Call::AddHeaders(const HttpHeaders& headers) {
  headers_.insert(headers_.end(), headers.begin(), headers.end());
}

void Call::Answer(HttpAnswer answer) {
  status_ = answer.status;
  answer.headers.insert(answer.headers.end(), headers_.begin(), headers_.end());
  exchange_.Answer(answer);
}

void Call::Answer(const Json& json) {
  HttpAnswer answer;
  answer.body = JsonToText(json) + "\n";
  Answer(std::move(answer));
}

void Call::Begin() {
  if (!std::exchange(streams_, true)) exchange_.BeginEvents(headers_);
}

bool Call::Send(const std::string& events) {
  return events.empty() ? !gone() : exchange_.SendEvent(events);
}

void Call::Fail(HttpAnswer answer) {
  if (error_form_) error_form_(&answer);
  if (!streams_) return Answer(std::move(answer));
  status_ = answer.status;
  if (stream_error_form_) Send(stream_error_form_(answer));
}

}  // namespace longstream::gateway
