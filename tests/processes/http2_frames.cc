#include "tests/processes/http2_frames.h"

namespace longstream {

uint32_t Http2Frame::GoAwayCode() const { return NumberAt(payload, 4, 4); }

std::string BigEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> 8 * i & 0xff);
  return text;
}

uint32_t NumberAt(const std::string& bytes, size_t at, int count) {
  uint32_t number = 0;
  for (int i = 0; i < count; ++i) {
    number = number << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
  }
  return number;
}

std::string FrameOfLength(size_t length, uint8_t type, uint8_t flags, uint32_t stream,
                          std::string_view payload) {
  std::string frame = BigEndian(length, 3) + static_cast<char>(type) + static_cast<char>(flags) +
                      BigEndian(stream, 4);
  return frame.append(payload);
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  return FrameOfLength(payload.size(), type, flags, stream, payload);
}

std::string HpackText(std::string_view text) {
  // The length is an integer with a prefix of 7 bits (RFC 7541, 5.1).
  std::string bytes;
  size_t length = text.size();
  if (length < 127) {
    bytes += static_cast<char>(length);
  } else {
    bytes += '\x7f';
    for (length -= 127; length >= 128; length >>= 7) bytes += static_cast<char>(length | 0x80);
    bytes += static_cast<char>(length);
  }
  return bytes.append(text);
}

std::string HpackHeader(std::string_view name, std::string_view value) {
  return '\0' + HpackText(name) + HpackText(value);
}

std::string HpackBlock(const Http2Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) block += HpackHeader(name, value);
  return block;
}

Http2Headers GrpcHeaders(const std::string& path) {
  return {{":method", "POST"},
          {":scheme", "http"},
          {":path", path},
          {":authority", "test"},
          {"content-type", "application/grpc"},
          {"te", "trailers"}};
}

std::string GrpcMessage(std::string_view message, uint8_t flag) {
  return GrpcPrefix(flag, message.size()).append(message);
}

std::string GrpcPrefix(uint8_t flag, uint64_t length) {
  return static_cast<char>(flag) + BigEndian(length, 4);
}

}  // namespace longstream
