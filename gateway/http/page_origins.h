// Which web pages may use the server.
#ifndef LONGSTREAM_GATEWAY_HTTP_PAGE_ORIGINS_H_
#define LONGSTREAM_GATEWAY_HTTP_PAGE_ORIGINS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

// A browser sends requests for any page that its user opens, also to servers that only the user's
// machine or network reaches. It names the origin of the page, and lets the page read the answer
// only if the server allows that origin (https://fetch.spec.whatwg.org/#http-cors-protocol).
// Programs name no origin, so they are always let in. Thread-safe.
class PageOrigins {
 public:
  // `allowed`: origins without an OriginError (service/security/origin.h). `listen`: where the
  // server listens, host:port. `tls`: and that it speaks TLS.
  PageOrigins(std::vector<std::string> allowed, std::string_view listen, bool tls = false);

  // Why the page may not use the server. Absent: it may, or no page has sent the request, as far as
  // its header says.
  std::optional<std::string> Refusal(const HttpRequest& request) const;

  // The headers with which a browser lets the page read the answer.
  HttpHeaders HeadersFor(const HttpRequest& request) const;

  // Whether a browser asks what the page may send, before it sends it.
  static bool IsQuestion(const HttpRequest& request);
  // The answer for a page that may use the server.
  HttpAnswer AnswerQuestion(const HttpRequest& request) const;

 private:
  bool IsListed(std::string_view origin) const;
  // Whether this server has sent the page: the page has the name by which it calls the server.
  bool IsOwn(const HttpRequest& request) const;
  // Whether a host, perhaps with a port, can be this server's.
  bool IsOwnHost(std::string_view host) const;

  const std::vector<std::string> allowed_;
  const bool on_loopback_;
  const bool tls_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_PAGE_ORIGINS_H_
