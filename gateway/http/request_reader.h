// Reads requests of HTTP/1.1 from the bytes of a connection, with Boost.Beast's parser.
#ifndef LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_
#define LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

struct RequestLimits {
  uint32_t header_bytes = 16 << 10;
  size_t header_fields = 128;
  uint64_t body_bytes = 16 << 20;
};

// It holds little more than these limits allow, however the bytes come. Not thread-safe.
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

  // Adds bytes of the connection. In kBad they are dropped.
  void Add(const char* bytes, size_t size);

  State state() const { return state_; }
  const Problem& problem() const { return problem_; }
  // Frees what it holds; then the state is kBad with this problem.
  void Refuse(Problem problem);
  // The header is complete, and the client waits for "100 Continue" before it sends the body. True
  // once a request.
  bool TakeExpectsContinue();
  // Bytes that it holds: of the present request, and those that came after it.
  size_t held_bytes() const;

  // REQUIRES: kComplete. Then it reads the next request, of which bytes may have come already.
  HttpRequest Take();

 private:
  struct Parser;  // Boost.Beast takes seconds to compile

  void Begin();
  void Parse();
  // Gives the parser bytes of bytes_ from `from` on. Returns how many it has taken; 0: it waits for
  // more, or Refuse was called.
  size_t ParseFrom(size_t from);
  // Reads the header, which is complete. False: Refuse was called.
  bool ReadHeader();
  void RefuseLongHeader();

  const RequestLimits limits_;
  std::unique_ptr<Parser> parser_;
  std::string bytes_;  // that the parser has not taken
  State state_ = State::kIdle;
  Problem problem_;
  HttpRequest request_;      // without the body; set when the header is complete
  size_t header_bytes_ = 0;  // that the parser has taken
  bool told_continue_ = false;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_REQUEST_READER_H_
