// One HTTP request and its answer, on a connection that does not block.
#ifndef LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_
#define LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "service/connections/streams/byte_stream.h"
#include "service/security/guard.h"

namespace longstream {

// A request with the method GET or HEAD.
struct HttpRequest {
  std::string_view target;  // such as "/metrics"
  Presented credentials;
};

struct HttpAnswer {
  std::string_view status;       // such as "200 OK"
  std::string_view more_header;  // a further header line without its end, or empty
  std::string body;
};

// Reads a request up to the end of its header, writes the answer and closes the connection. A body
// of the request is ignored. Holds at most 8 KiB of the request. Not thread-safe.
class HttpExchange {
 public:
  using Responder = std::function<HttpAnswer(const HttpRequest& request)>;
  enum class State {
    kReading,  // the request is not complete
    kWriting,  // the client has not read the whole answer
    kClosing,  // the answer is written, and the client has not closed the connection
    kEnded,    // the connection has ended; the owner destroys the object
  };

  // `on_malformed` is called for a request that is malformed, before the first byte of the answer
  // is written, and for a client that does not speak the protocol of the stream.
  HttpExchange(std::unique_ptr<ByteStream> stream, Responder responder,
               std::function<void()> on_malformed);

  int descriptor() const { return stream_->descriptor(); }
  State state() const { return state_; }
  // Whether the request was no request of HTTP/1, or its header was too long.
  bool malformed() const { return malformed_; }
  // Does what is possible without waiting. Call it whenever the connection becomes readable or
  // writable.
  void Proceed();

 private:
  void Read();
  void Respond();
  void Write();
  void Close();

  std::unique_ptr<ByteStream> stream_;
  const Responder responder_;
  const std::function<void()> on_malformed_;
  State state_ = State::kReading;
  bool malformed_ = false;
  std::string request_;
  std::string response_;
  size_t written_ = 0;  // bytes of response_
  size_t ignored_ = 0;  // bytes that the client sent after its request
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_
