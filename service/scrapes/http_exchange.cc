// Reads the request line, and writes the answer with its header.
#include "service/scrapes/http_exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr size_t kMaxRequest = 8 << 10;
// If a client sends more than this after its request, the connection is closed at once.
constexpr size_t kMaxIgnored = 64 << 10;

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

// The parts of "GET /metrics HTTP/1.1".
struct RequestLine {
  std::string_view method;
  std::string_view target;
  std::string_view version;
};

RequestLine ParseRequestLine(std::string_view request) {
  std::string_view line = request.substr(0, request.find('\n'));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const auto word = [&line] {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view found = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return found;
  };
  RequestLine parsed;
  parsed.method = word();
  parsed.target = word();
  parsed.version = line;
  return parsed;
}

bool HasWholeHeader(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos ||
         request.find("\n\n") != std::string_view::npos;
}

}  // namespace

HttpExchange::HttpExchange(Descriptor socket, Responder responder)
    : socket_(std::move(socket)), responder_(std::move(responder)) {}

void HttpExchange::Proceed() {
  if (state_ == State::kReading) Read();
  if (state_ == State::kWriting) Write();
  if (state_ == State::kClosing) Close();
}

void HttpExchange::Read() {
  std::array<char, 2048> bytes;
  while (!HasWholeHeader(request_)) {
    if (request_.size() >= kMaxRequest) break;
    const ssize_t count = recv(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && WouldBlock()) return;
    if (count <= 0) {
      state_ = State::kEnded;
      return;
    }
    request_.append(bytes.data(), static_cast<size_t>(count));
  }
  Respond();
  state_ = State::kWriting;
}

void HttpExchange::Respond() {
  const RequestLine line = ParseRequestLine(request_);
  HttpAnswer answer;
  malformed_ = !HasWholeHeader(request_) || !line.version.starts_with("HTTP/1.");
  if (!HasWholeHeader(request_)) {
    answer = {"431 Request Header Fields Too Large", "",
              absl::StrCat("The header of a request may have ", kMaxRequest, " bytes.\n")};
  } else if (malformed_) {
    answer = {"400 Bad Request", "", "This port answers requests of HTTP/1.\n"};
  } else if (line.method != "GET" && line.method != "HEAD") {
    answer = {"405 Method Not Allowed", "Allow: GET, HEAD",
              "This port answers the methods GET and HEAD.\n"};
  } else {
    answer = responder_(line.target.substr(0, line.target.find('?')));
  }
  const auto view = [](std::string_view text) {
    return absl::string_view(text.data(), text.size());
  };
  response_ =
      absl::StrCat("HTTP/1.1 ", view(answer.status),
                   "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ",
                   answer.body.size(), "\r\nConnection: close\r\n", view(answer.more_header),
                   answer.more_header.empty() ? "\r\n" : "\r\n\r\n");
  if (line.method != "HEAD") response_ += answer.body;
}

void HttpExchange::Write() {
  while (written_ < response_.size()) {
    const ssize_t count = send(socket_.number(), response_.data() + written_,
                               response_.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && WouldBlock()) return;
    if (count <= 0) {
      state_ = State::kEnded;
      return;
    }
    written_ += static_cast<size_t>(count);
  }
  shutdown(socket_.number(), SHUT_WR);
  state_ = State::kClosing;
}

void HttpExchange::Close() {
  // If a socket is closed before all bytes are read from it, the kernel resets the connection, and
  // the client may lose the answer. So read until the client closes its side.
  std::array<char, 2048> bytes;
  while (ignored_ < kMaxIgnored) {
    const ssize_t count = recv(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && WouldBlock()) return;
    if (count <= 0) break;
    ignored_ += static_cast<size_t>(count);
  }
  state_ = State::kEnded;
}

}  // namespace longstream
