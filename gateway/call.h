// One request of a client, and its answer.
#ifndef LONGSTREAM_GATEWAY_CALL_H_
#define LONGSTREAM_GATEWAY_CALL_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "client/cancellation.h"
#include "client/connection.h"
#include "gateway/answers/event_sink.h"
#include "gateway/http/exchange.h"
#include "gateway/http/http_message.h"
#include "gateway/json/json_object.h"

namespace longstream::gateway {

// A path of a response that ends so cancels it.
inline constexpr absl::string_view kCancelSuffix = "/cancel";

// If the client leaves, the calls that are made for it are cancelled. Threads may share it as
// SharedSink does; gone() and what is const from the beginning need no lock.
class Call final : public EventSink {
 public:
  explicit Call(Exchange& exchange);
  ~Call() override;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Throws CallError if the credential cannot be valid. `needed`: or is missing.
  void ReadCredential(bool needed);

  const HttpRequest& request() const { return exchange_.request(); }
  // The calls to the server are made in this name.
  const client::Caller& caller() const { return caller_; }
  const std::string& request_id() const { return request_id_; }
  std::string_view path() const { return request().path; }
  bool gone() const { return exchange_.gone(); }

  // For metrics: the status of the answer, or that the client has not waited for it.
  int status() const;
  // For metrics: a path without names of clients.
  std::string route = "other";

  // False: the request has another method; it is answered.
  bool Expect(const std::string& method);

  // Adds these to the headers of the answer.
  void AddHeaders(const HttpHeaders& headers);

  void Answer(HttpAnswer answer);
  void Answer(const Json& json);

  // A stream of events.
  void Begin() override;
  bool Send(const std::string& events) override;

  // An API has its own form of errors: of whole answers, and of streams that have begun.
  void WriteErrorsAs(std::function<void(HttpAnswer*)> form) { error_form_ = std::move(form); }
  void StreamErrorsAs(std::function<std::string(const HttpAnswer&)> form) {
    stream_error_form_ = std::move(form);
  }

  // Ends a request that has failed. A stream that has begun cannot change its status any more.
  void Fail(HttpAnswer answer);

 private:
  Exchange& exchange_;
  const std::string request_id_;
  client::Cancellation cancellation_;
  client::Caller caller_;
  HttpHeaders headers_;  // of the answer
  std::function<void(HttpAnswer*)> error_form_;
  std::function<std::string(const HttpAnswer&)> stream_error_form_;
  bool streams_ = false;
  int status_ = 200;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_CALL_H_
