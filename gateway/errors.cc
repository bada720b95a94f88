#include "gateway/errors.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/errors/error_details.h"
#include "gateway/http/problem.h"

namespace longstream::gateway {

int HttpStatusOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::ALREADY_EXISTS:
      return 409;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 501;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 500;
  }
}

namespace {

// The field that the message of an error begins with, by the name that it has in HTTP's APIs.
// Empty: the message names none.
std::string FieldOf(absl::string_view message) {
  const size_t end = message.find(": ");
  if (end == absl::string_view::npos) return "";
  absl::string_view field = message.substr(0, end);
  for (const char c : field) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && !absl::StrContains("_.[]", c)) {
      return "";
    }
  }
  for (const char* const group : {"sampling.", "stop.", "input.", "messages."}) {
    absl::ConsumePrefix(&field, group);
  }
  // The gateway has put the format together; the text says which schema is wrong.
  if (absl::StartsWith(field, "response_format.")) field = "response_format";
  return std::string(field);
}

// The text of an error. The server limits the memory of a request by its size in gRPC's form, of
// which clients of HTTP know nothing.
std::string TextOf(const grpc::Status& status, const std::string& field) {
  std::string text = status.error_message();
  if (!absl::StrContains(text, "too many elements for its size")) return text;
  return absl::StrCat(field.empty() ? "" : field + ": ",
                      "the request has too many small parts, such as messages of a few characters"
                      " (about a thousand are taken); join some of them, or leave out the oldest");
}

// The code of an error for programs: that of OpenAI's API where clients know it.
std::string CodeOf(const grpc::Status& status, absl::string_view field) {
  const std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::NOT_FOUND && field == "model") {
    return "model_not_found";
  }
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
      absl::StrContains(message, "the model's context of")) {
    return "context_length_exceeded";
  }
  return absl::AsciiStrToLower(
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())));
}

}  // namespace

HttpAnswer ErrorAnswer(const grpc::Status& status) {
  const std::string field = FieldOf(status.error_message());
  HttpAnswer answer =
      ProblemAnswer(HttpStatusOf(status), TextOf(status, field), field, CodeOf(status, field));
  std::optional<std::chrono::milliseconds> delay = client::RetryDelay(status);
  // A server that cannot be reached names no time.
  if (answer.status == 503 && !delay.has_value()) delay = std::chrono::seconds(1);
  if (delay.has_value()) {
    // HTTP counts whole seconds.
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*delay);
    answer.headers.emplace_back("Retry-After",
                                std::to_string(std::max<int64_t>(1, seconds.count())));
  }
  return answer;
}

}  // namespace longstream::gateway
