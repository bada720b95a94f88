#include "gateway/http/problem.h"

#include <nlohmann/json.hpp>

namespace longstream::gateway {
namespace {

nlohmann::json TextOrNull(std::string_view text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace

const char* ProblemType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string ProblemJson(int status, std::string_view text, std::string_view param,
                        std::string_view code) {
  const nlohmann::ordered_json problem = {{"error",
                                           {{"message", text},
                                            {"type", ProblemType(status)},
                                            {"param", TextOrNull(param)},
                                            {"code", TextOrNull(code)}}}};
  // An error may repeat bytes of a request that are no UTF-8.
  return problem.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpAnswer ProblemAnswer(int status, std::string_view text, std::string_view param,
                         std::string_view code) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = ProblemJson(status, text, param, code) + "\n";
  if (status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

HttpAnswer BusyAnswer(std::string_view text) {
  HttpAnswer busy = ProblemAnswer(503, text);
  busy.headers.emplace_back("Retry-After", "1");
  return busy;
}

}  // namespace longstream::gateway
