// One HTTP request and its answer, on a connection that does not block.
#ifndef LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_
#define LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "service/connections/descriptor.h"

namespace longstream {

struct HttpAnswer {
  std::string_view status;       // such as "200 OK"
  std::string_view more_header;  // a further header line without its end, or empty
  std::string body;
};

// Reads a request up to the end of its header, writes the answer and closes the connection. A body
// of the request is ignored. Holds at most 8 KiB of the request. Not thread-safe.
class HttpExchange {
 public:
  // Answers a request for `target`, such as "/metrics". The method is GET or HEAD.
  using Responder = std::function<HttpAnswer(std::string_view target)>;
  enum class State {
    kReading,  // the request is not complete
    kWriting,  // the client has not read the whole answer
    kClosing,  // the answer is written, and the client has not closed the connection
    kEnded,    // the connection has ended; the owner destroys the object
  };

  HttpExchange(Descriptor socket, Responder responder);

  int descriptor() const { return socket_.number(); }
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

  Descriptor socket_;
  const Responder responder_;
  State state_ = State::kReading;
  bool malformed_ = false;
  std::string request_;
  std::string response_;
  size_t written_ = 0;  // bytes of response_
  size_t ignored_ = 0;  // bytes that the client sent after its request
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SCRAPES_HTTP_EXCHANGE_H_
