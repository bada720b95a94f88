// A connection that speaks HTTP/2 by hand, for tests of what gRPC's own client would not send or
// show.
#ifndef LONGSTREAM_TESTS_PROCESSES_HTTP2_CONNECTION_H_
#define LONGSTREAM_TESTS_PROCESSES_HTTP2_CONNECTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tests/processes/http2_frames.h"

namespace longstream {

// Connects to a loopback port. Throws std::runtime_error if the connection fails.
class Http2Connection {
 public:
  explicit Http2Connection(int port);
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Sends a gRPC call with one message. `stream`: an odd number, greater than in earlier calls.
  // Headers and message must be shorter than 16 KiB together.
  void Call(uint32_t stream, const std::string& method, const Http2Headers& more_headers,
            const std::string& message);

  // Returns the next frame; nothing if the connection is closed or nothing arrives for 30 s.
  // Answers SETTINGS and PING by itself.
  std::optional<Http2Frame> Next();

  // Reads until the stream has ended. Returns the bytes of its header blocks. Texts that the server
  // sends for the first time are in them as they are, because gRPC does not compress them.
  std::string HeadersOf(uint32_t stream);

 private:
  void Write(const std::string& bytes) const;
  // Reads exactly `size` bytes. Returns fewer if the connection ends.
  std::string Read(size_t size) const;

  int socket_ = -1;
};

// Whether the header block holds this header as gRPC sends it the first time.
bool HasHeader(const std::string& block, const std::string& name, const std::string& value);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_HTTP2_CONNECTION_H_
