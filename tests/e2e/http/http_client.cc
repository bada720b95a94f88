#include "tests/e2e/http/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace longstream {
namespace {

constexpr int kPatienceMs = 30000;

[[noreturn]] void Wrong(const std::string& what, const std::string& bytes) {
  throw std::runtime_error(what + ": " + bytes.substr(0, 500));
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Parses a header without the empty line at its end.
HttpReply ParseHeader(const std::string& header) {
  HttpReply reply;
  size_t line = header.find("\r\n");
  if (!header.starts_with("HTTP/1.1 ")) Wrong("no answer of HTTP/1.1", header);
  reply.status = std::atoi(header.c_str() + 9);
  while (line < header.size()) {
    const size_t begin = line + 2;
    line = std::min(header.find("\r\n", begin), header.size());
    const size_t colon = header.find(": ", begin);
    if (colon > line) Wrong("a line of the header has no colon", header);
    reply.headers[LowerCase(header.substr(begin, colon - begin))] =
        header.substr(colon + 2, line - colon - 2);
  }
  return reply;
}

bool IsChunked(const HttpReply& reply) {
  const auto encoding = reply.headers.find("transfer-encoding");
  return encoding != reply.headers.end() && encoding->second == "chunked";
}

}  // namespace

std::string RequestText(const std::string& method, const std::string& path, std::string_view body,
                        const Headers& headers) {
  std::string text = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n";
  if (headers.count("Host") == 0) text += "Host: localhost\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  if (!body.empty()) {
    text +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text.append("\r\n").append(body);
}

HttpReply ParseReply(const std::string& bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) Wrong("the header has no end", bytes);
  HttpReply reply = ParseHeader(bytes.substr(0, end));
  if (IsChunked(reply)) Wrong("a stream was not expected", bytes);
  reply.body = bytes.substr(end + 4);
  const auto length = reply.headers.find("content-length");
  if (length == reply.headers.end() || length->second != std::to_string(reply.body.size())) {
    Wrong("the body has another length", bytes);
  }
  return reply;
}

HttpReply Ask(int port, const std::string& method, const std::string& path, std::string_view body,
              const Headers& headers) {
  const TcpClient client(port);
  client.Send(RequestText(method, path, body, headers));
  return ParseReply(client.ReceiveAll());
}

HttpReply Post(int port, const std::string& path, const Json& body, const Headers& headers) {
  return Ask(port, "POST", path, body.dump(), headers);
}

HttpStream::HttpStream(int port, const std::string& path, const Json& body, const Headers& headers)
    : client_(port) {
  client_.Send(RequestText("POST", path, body.dump(), headers));
}

HttpStream::HttpStream(int port, const std::string& path) : client_(port) {
  client_.Send(RequestText("GET", path, ""));
}

bool HttpStream::Receive() {
  pollfd readable{client_.fd(), POLLIN, 0};
  if (poll(&readable, 1, kPatienceMs) <= 0) Wrong("the server sends nothing more after", bytes_);
  char bytes[4096];
  const ssize_t count = recv(client_.fd(), bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  bytes_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string HttpStream::Line() {
  size_t end = 0;
  while ((end = bytes_.find("\r\n")) == std::string::npos) {
    if (!Receive()) Wrong("the server has left in the middle of a line", bytes_);
  }
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, end + 2);
  return line;
}

void HttpStream::ReadHeader() {
  if (has_header_) return;
  std::string header = Line();
  for (std::string line = Line(); !line.empty(); line = Line()) header += "\r\n" + line;
  reply_ = ParseHeader(header);
  has_header_ = true;
}

int HttpStream::status() {
  ReadHeader();
  return reply_.status;
}

const Headers& HttpStream::headers() {
  ReadHeader();
  return reply_.headers;
}

bool HttpStream::ReadChunk() {
  const std::string line = Line();
  char* end = nullptr;
  const size_t size = std::strtoul(line.c_str(), &end, 16);
  if (line.empty() || *end != '\0') Wrong("this is no size of a chunk", line);
  while (bytes_.size() < size + 2) {
    if (!Receive()) Wrong("the server has left in the middle of a chunk", bytes_);
  }
  if (bytes_.compare(size, 2, "\r\n") != 0) Wrong("the chunk is longer than it says", bytes_);
  text_.append(bytes_, 0, size);
  bytes_.erase(0, size + 2);
  return size > 0;
}

std::optional<std::string> HttpStream::Next() {
  ReadHeader();
  if (!IsChunked(reply_)) Wrong("the answer is no stream", bytes_);
  while (!ended_ || !text_.empty()) {
    size_t end = 0;
    while ((end = text_.find("\n\n")) == std::string::npos) {
      if (ended_) Wrong("the last event has no end", text_);
      ended_ = !ReadChunk();
      if (ended_ && text_.empty()) return std::nullopt;
    }
    std::string event = text_.substr(0, end);
    text_.erase(0, end + 2);
    if (event.starts_with(": ")) continue;  // a comment
    // Some APIs have the type of an event in a line of its own, too.
    if (event.starts_with("event: ")) event.erase(0, event.find('\n') + 1);
    if (!event.starts_with("data: ") || event.find('\n') != std::string::npos) {
      Wrong("this is no event", event);
    }
    return event.substr(6);
  }
  return std::nullopt;
}

std::vector<std::string> HttpStream::Rest() {
  std::vector<std::string> events;
  while (const std::optional<std::string> event = Next()) events.push_back(*event);
  return events;
}

std::string HttpStream::Body() {
  ReadHeader();
  while (Receive()) {
  }
  return bytes_;
}

}  // namespace longstream
