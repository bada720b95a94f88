// Writes frames of HTTP/2 (RFC 9113) and headers (RFC 7541) by hand, valid and invalid ones.
// Headers are literals without indexing and without Huffman codes.
#ifndef LONGSTREAM_TESTS_PROCESSES_HTTP2_FRAMES_H_
#define LONGSTREAM_TESTS_PROCESSES_HTTP2_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {

using Http2Headers = std::vector<std::pair<std::string, std::string>>;

struct Http2Frame {
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kPriority = 2,
    kReset = 3,
    kSettings = 4,
    kPushPromise = 5,
    kPing = 6,
    kGoAway = 7,
    kWindowUpdate = 8,
    kContinuation = 9
  };
  enum Flag : uint8_t { kNone = 0, kAck = 1, kEndStream = 1, kEndHeaders = 4, kPadded = 8 };

  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
  std::string payload;

  // The error code of a GOAWAY frame.
  uint32_t GoAwayCode() const;
};

// The largest payload that the server accepts if it does not say otherwise.
inline constexpr size_t kHttp2MaxPayload = 16384;

std::string BigEndian(uint64_t number, int bytes);
uint32_t NumberAt(const std::string& bytes, size_t at, int count);

// A frame whose header says `length`, whatever the payload's size is.
std::string FrameOfLength(size_t length, uint8_t type, uint8_t flags, uint32_t stream,
                          std::string_view payload);
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);

// A text with its length before it.
std::string HpackText(std::string_view text);
std::string HpackHeader(std::string_view name, std::string_view value);
std::string HpackBlock(const Http2Headers& headers);

// The headers that a call needs. `path`: "/package.Service/Method".
Http2Headers GrpcHeaders(const std::string& path);
// A message with its prefix. `flag`: 0, or 1 if the message is compressed.
std::string GrpcMessage(std::string_view message, uint8_t flag = 0);
// A prefix that says `length`.
std::string GrpcPrefix(uint8_t flag, uint64_t length);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_HTTP2_FRAMES_H_
