// Reads requests of HTTP/1.1 from the bytes of a connection, with Boost.Beast's parser.
#ifndef LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_
#define LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

struct RequestLimits {
  uint32_t header_bytes = 16 << 10;
  uint64_t body_bytes = 16 << 20;
};

// Not thread-safe.
class RequestReader {
 public:
  enum class State {
    kIdle,      // no byte of the next request has come
    kReading,   // a part of the request has come
    kComplete,  // Take() returns the request
    kBad,       // the connection can read no further request; problem() says why
  };
  struct Problem {
    int status = 0;  // of HTTP: 400, 413 or 431
    std::string text;
  };

  explicit RequestReader(const RequestLimits& limits);
  ~RequestReader();

  // Adds bytes of the connection.
  void Add(const char* bytes, size_t size);

  State state() const { return state_; }
  const Problem& problem() const { return problem_; }
  // The header is complete, and the client waits for "100 Continue" before it sends the body. True
  // once a request.
  bool TakeExpectsContinue();
  // Bytes that it holds: of the present request, and those that came after it.
  size_t held_bytes() const;
  // Bytes that came after a complete request.
  size_t following_bytes() const { return state_ == State::kComplete ? bytes_.size() : 0; }

  // REQUIRES: kComplete. Then it reads the next request, of which bytes may have come already.
  HttpRequest Take();

 private:
  struct Parser;  // Boost.Beast takes seconds to compile

  void Begin();
  void Parse();

  const RequestLimits limits_;
  std::unique_ptr<Parser> parser_;
  std::string bytes_;  // that the parser has not taken
  State state_ = State::kIdle;
  Problem problem_;
  bool told_continue_ = false;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_
