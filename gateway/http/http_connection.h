// One connection of HTTP/1.1.
#ifndef LONGSTREAM_GATEWAY_HTTP_HTTP_CONNECTION_H_
#define LONGSTREAM_GATEWAY_HTTP_HTTP_CONNECTION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "gateway/http/exchange.h"
#include "gateway/http/request_reader.h"
#include "service/clock/monotonic_time.h"
#include "service/connections/streams/byte_stream.h"

namespace longstream::gateway {

struct ConnectionTimes {
  absl::Duration idle = absl::Minutes(2);     // between two requests
  absl::Duration request = absl::Minutes(1);  // from the first byte of a request to its last
  absl::Duration unread = absl::Minutes(1);   // in which the client reads nothing of the answer
};

// Reads one request after the other, and writes their answers. One thread makes all calls.
class HttpConnection {
 public:
  // Begins the answer of a request; it must not block.
  using OnRequest = std::function<void(std::shared_ptr<Exchange>)>;
  enum class State {
    kReading,    // of a request
    kAnswering,  // the handler has the request
    kClosing,    // the last answer is written, and the client has not closed the connection
    kEnded,      // the owner destroys the object
  };

  // `wake`: called on any thread when there are bytes to write, or more to read than one call of
  // Proceed may take.
  HttpConnection(std::unique_ptr<ByteStream> stream, const RequestLimits& limits,
                 const ConnectionTimes& times, OnRequest on_request, std::function<void()> wake);
  // Tells a handler that is still answering that the client is gone.
  ~HttpConnection();

  // Does what is possible without waiting, but reads no more than other connections can wait for.
  // Call it when the connection becomes readable or writable, and after `wake`.
  void Proceed();

  int descriptor() const { return stream_->descriptor(); }
  State state() const { return state_; }
  // When the connection must end if nothing happens before.
  MonotonicTime deadline() const { return deadline_; }
  // Bytes that its requests and answers take, without what the handler makes of them.
  size_t held_bytes() const;
  // No request is running or being read.
  bool idle() const;
  // Whether a request has gone to the handler.
  bool served() const { return served_; }
  // Whether the client has sent something that is no request.
  bool malformed() const { return malformed_; }

  // Answers the request that is being read with an error of the server, and closes.
  void Refuse(int status, std::string text);

 private:
  bool Read();
  bool TakeRequest();
  bool Write();
  void DrainAndEnd();
  void BeginExchange(HttpRequest request);
  void SendProblem();

  const std::unique_ptr<ByteStream> stream_;
  const ConnectionTimes times_;
  const OnRequest on_request_;
  const std::function<void()> wake_;
  RequestReader reader_;
  std::shared_ptr<Exchange> exchange_;  // null: no request is being answered
  std::string out_;
  size_t written_ = 0;   // bytes of out_
  size_t ignored_ = 0;   // bytes that came while the connection was closing
  size_t may_read_ = 0;  // bytes, in this call of Proceed
  State state_ = State::kReading;
  bool served_ = false;
  bool malformed_ = false;
  bool request_began_ = false;
  MonotonicTime deadline_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_HTTP_CONNECTION_H_
