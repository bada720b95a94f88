#include "gateway/http/page_origins.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "service/security/loopback.h"
#include "service/security/origin.h"

namespace longstream::gateway {
namespace {

constexpr char kOrigin[] = "origin";

// Whether the answer tells of sessions or of the texts of others.
bool ShowsSessions(const HttpRequest& request) {
  return request.method != "POST" &&
         (request.path.starts_with("/longstream/") || request.path.starts_with("/v1/responses/"));
}

// The host of an origin, with its port unless that is the port of the scheme.
std::string_view HostOf(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

// A host without its port.
std::string WithoutPort(std::string_view host) {
  const size_t port = host.find(':', host.rfind(']') + 1);
  return std::string(host.substr(0, port));
}

// Whether a host, perhaps with a port, is a number or localhost, and no name that somebody owns.
bool IsNoName(std::string_view host) {
  std::string address = WithoutPort(host);
  if (IsLoopback(address + ":0")) return true;
  in6_addr bytes{};
  if (inet_pton(AF_INET, address.c_str(), &bytes) == 1) return true;
  if (address.size() < 2 || address.front() != '[' || address.back() != ']') return false;
  address = address.substr(1, address.size() - 2);
  return inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

}  // namespace

PageOrigins::PageOrigins(std::vector<std::string> allowed, std::string_view listen, bool tls)
    : allowed_(std::move(allowed)), on_loopback_(IsLoopback(listen)), tls_(tls) {}

bool PageOrigins::IsListed(std::string_view origin) const {
  return std::any_of(allowed_.begin(), allowed_.end(), [origin](const std::string& allowed) {
    return allowed == kAnyOrigin || allowed == origin;
  });
}

bool PageOrigins::IsOwnHost(std::string_view host) const {
  // The owner of a name can let it point to the machine of a visitor. Then the visitor's browser
  // takes the pages of that name for those of the server.
  return !on_loopback_ || IsNoName(host) ||
         std::any_of(allowed_.begin(), allowed_.end(), [host](const std::string& allowed) {
           return allowed == kAnyOrigin || HostOf(allowed) == host;
         });
}

bool PageOrigins::IsOwn(const HttpRequest& request) const {
  const std::string_view origin = request.Header(kOrigin);
  const std::string_view host = HostOf(origin);
  if (host.empty() || host != request.Header("host")) return false;
  // With TLS, a page without it is another server's. Without, a proxy may add it.
  if (tls_ && !origin.starts_with("https://")) return false;
  return IsOwnHost(host);
}

std::optional<std::string> PageOrigins::Refusal(const HttpRequest& request) const {
  const std::string_view origin = request.Header(kOrigin);
  if (!origin.empty()) {
    if (IsListed(origin) || IsOwn(request)) return std::nullopt;
    return "pages of the origin " + std::string(origin) +
           " may not use this server; http.allowed_origins lists those that may";
  }
  // A browser names no origin if a page reads from what it takes for its own server.
  const std::string_view host = request.Header("host");
  if (host.empty() || !ShowsSessions(request) || IsOwnHost(host)) return std::nullopt;
  return "this server listens on this machine only, and does not know the name " +
         std::string(host) + "; http.allowed_origins lists the names of pages that may use it";
}

HttpHeaders PageOrigins::HeadersFor(const HttpRequest& request) const {
  if (allowed_.empty()) return {};
  HttpHeaders headers = {{"Vary", "Origin"}};
  const std::string_view origin = request.Header(kOrigin);
  if (origin.empty() || !IsListed(origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, retry-after");
  return headers;
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
