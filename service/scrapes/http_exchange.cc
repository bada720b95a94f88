// Reads the request line, and writes the answer with its header.
#include "service/scrapes/http_exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace longstream {
namespace {

constexpr size_t kMaxRequest = 8 << 10;
// If a client sends more than this after its request, the connection is closed at once.
constexpr size_t kMaxIgnored = 64 << 10;

// The values of the header "authorization".
std::vector<std::string_view> AuthorizationIn(std::string_view request) {
  constexpr absl::string_view kName = "authorization:";
  std::vector<std::string_view> values;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(request.data(), request.size()), '\n')) {
    if (!absl::StartsWithIgnoreCase(line, kName)) continue;
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(kName.size()));
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

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

HttpExchange::HttpExchange(std::unique_ptr<ByteStream> stream, Responder responder,
                           std::function<void()> on_malformed)
    : stream_(std::move(stream)),
      responder_(std::move(responder)),
      on_malformed_(std::move(on_malformed)) {}

void HttpExchange::Proceed() {
  if (state_ == State::kReading) Read();
  if (state_ == State::kWriting) Write();
  if (state_ == State::kClosing) Close();
}

void HttpExchange::Read() {
  std::array<char, 2048> bytes;
  while (!HasWholeHeader(request_)) {
    if (request_.size() >= kMaxRequest) break;
    const ByteStream::Moved moved = stream_->Read(bytes.data(), bytes.size());
    if (moved.outcome == ByteStream::Outcome::kWait) return;
    if (moved.outcome != ByteStream::Outcome::kDone) {
      malformed_ = moved.outcome == ByteStream::Outcome::kWrong;
      if (malformed_) on_malformed_();
      state_ = State::kEnded;
      return;
    }
    request_.append(bytes.data(), moved.bytes);
  }
  Respond();
  state_ = State::kWriting;
}

void HttpExchange::Respond() {
  const RequestLine line = ParseRequestLine(request_);
  HttpAnswer answer;
  malformed_ = !HasWholeHeader(request_) || !line.version.starts_with("HTTP/1.");
  if (malformed_) on_malformed_();
  if (!HasWholeHeader(request_)) {
    answer = {"431 Request Header Fields Too Large", "",
              absl::StrCat("The header of a request may have ", kMaxRequest, " bytes.\n")};
  } else if (malformed_) {
    answer = {"400 Bad Request", "", "This port answers requests of HTTP/1.\n"};
  } else if (line.method != "GET" && line.method != "HEAD") {
    answer = {"405 Method Not Allowed", "Allow: GET, HEAD",
              "This port answers the methods GET and HEAD.\n"};
  } else {
    answer = responder_({line.target.substr(0, line.target.find('?')),
                         {AuthorizationIn(request_), stream_->PeerNames()}});
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
    const ByteStream::Moved moved = stream_->Write(std::string_view(response_).substr(written_));
    if (moved.outcome == ByteStream::Outcome::kWait) return;
    if (moved.outcome != ByteStream::Outcome::kDone) {
      state_ = State::kEnded;
      return;
    }
    written_ += moved.bytes;
  }
  stream_->CloseForWriting();
  state_ = State::kClosing;
}

void HttpExchange::Close() {
  // If a socket is closed before all bytes are read from it, the kernel resets the connection, and
  // the client may lose the answer. So read until the client closes its side.
  std::array<char, 2048> bytes;
  while (ignored_ < kMaxIgnored) {
    // The bytes are not looked at, so TLS does not matter.
    const ssize_t count = recv(descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) break;
    ignored_ += static_cast<size_t>(count);
  }
  state_ = State::kEnded;
}

}  // namespace longstream
