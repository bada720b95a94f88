#include "gateway/http/page_origins.h"

#include <algorithm>
#include <utility>

#include "service/security/loopback.h"
#include "service/security/origin.h"

namespace longstream::gateway {
namespace {

constexpr char kOrigin[] = "origin";

// What follows the scheme of an origin: host:port or, with the port of the scheme, the host.
std::string_view HostOf(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

// IsLoopback needs a port.
bool IsLoopbackHost(std::string_view host) {
  const bool has_port = host.find(':', host.rfind(']') + 1) != std::string_view::npos;
  return IsLoopback(has_port ? std::string(host) : std::string(host) + ":0");
}

}  // namespace

PageOrigins::PageOrigins(std::vector<std::string> allowed, std::string_view listen)
    : allowed_(std::move(allowed)), on_loopback_(IsLoopback(listen)) {}

bool PageOrigins::IsListed(std::string_view origin) const {
  return std::any_of(allowed_.begin(), allowed_.end(), [origin](const std::string& allowed) {
    return allowed == kAnyOrigin || allowed == origin;
  });
}

bool PageOrigins::IsOwn(const HttpRequest& request) const {
  const std::string_view host = HostOf(request.Header(kOrigin));
  if (host.empty() || host != request.Header("host")) return false;
  // Whoever owns a name can let it point to the machine of a visitor. Then the page calls the
  // server by that name, but not by one of this machine.
  return !on_loopback_ || IsLoopbackHost(host);
}

std::optional<std::string> PageOrigins::Refusal(const HttpRequest& request) const {
  const std::string_view origin = request.Header(kOrigin);
  if (origin.empty() || IsListed(origin) || IsOwn(request)) return std::nullopt;
  return "pages of the origin " + std::string(origin) +
         " may not use this server; http.allowed_origins lists those that may";
}

HttpHeaders PageOrigins::HeadersFor(const HttpRequest& request) const {
  const std::string_view origin = request.Header(kOrigin);
  if (origin.empty() || !IsListed(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers", "x-request-id, retry-after"},
          {"Vary", "Origin"}};
}

bool PageOrigins::IsQuestion(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.Header(kOrigin).empty() &&
         !request.Header("access-control-request-method").empty();
}

HttpAnswer PageOrigins::AnswerQuestion(const HttpRequest& request) const {
  HttpAnswer answer;
  answer.content_type = "text/plain";
  if (!IsListed(request.Header(kOrigin))) return answer;  // pages of the server ask nothing
  answer.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                    {"Access-Control-Max-Age", "600"}};
  const std::string_view wanted = request.Header("access-control-request-headers");
  if (!wanted.empty()) answer.headers.emplace_back("Access-Control-Allow-Headers", wanted);
  // The browser asks so before a public page may use a private network.
  if (request.Header("access-control-request-private-network") == "true") {
    answer.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return answer;
}

}  // namespace longstream::gateway
