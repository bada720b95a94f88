#include "tests/processes/http2_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <stdexcept>

namespace longstream {

Http2Connection::Http2Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{30, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("no connection to port " + std::to_string(port));
  }
  Write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(Http2Frame::kSettings, 0, 0, ""));
}

Http2Connection::~Http2Connection() { close(socket_); }

void Http2Connection::Call(uint32_t stream, const std::string& method,
                           const Http2Headers& more_headers, const std::string& message) {
  Http2Headers headers = GrpcHeaders("/longstream.v1.Longstream/" + method);
  headers.insert(headers.end(), more_headers.begin(), more_headers.end());
  Write(Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, stream, HpackBlock(headers)) +
        Frame(Http2Frame::kData, Http2Frame::kEndStream, stream, GrpcMessage(message)));
}

std::optional<Http2Frame> Http2Connection::Next() {
  const std::string head = Read(9);
  if (head.size() < 9) return std::nullopt;
  Http2Frame frame;
  frame.type = static_cast<uint8_t>(head[3]);
  frame.flags = static_cast<uint8_t>(head[4]);
  frame.stream = NumberAt(head, 5, 4);
  frame.payload = Read(NumberAt(head, 0, 3));
  if ((frame.flags & Http2Frame::kAck) == 0) {
    if (frame.type == Http2Frame::kSettings) Write(Frame(frame.type, Http2Frame::kAck, 0, ""));
    if (frame.type == Http2Frame::kPing)
      Write(Frame(frame.type, Http2Frame::kAck, 0, frame.payload));
  }
  return frame;
}

std::string Http2Connection::HeadersOf(uint32_t stream) {
  std::string blocks;
  while (const std::optional<Http2Frame> frame = Next()) {
    if (frame->stream != stream) continue;
    if (frame->type == Http2Frame::kHeaders) blocks += frame->payload;
    const bool may_end = frame->type == Http2Frame::kHeaders || frame->type == Http2Frame::kData;
    if (may_end && (frame->flags & Http2Frame::kEndStream) != 0) break;
  }
  return blocks;
}

void Http2Connection::Write(const std::string& bytes) const {
  // A write to a closed connection must not end the test.
  (void)send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string Http2Connection::Read(size_t size) const {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = recv(socket_, bytes.data() + have, size - have, 0);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

bool HasHeader(const std::string& block, const std::string& name, const std::string& value) {
  return block.find(HpackText(name) + HpackText(value)) != std::string::npos;
}

}  // namespace longstream
