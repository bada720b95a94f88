// The states of a connection, and its deadlines.
#include "gateway/http/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "gateway/http/problem.h"

namespace longstream::gateway {
namespace {

constexpr size_t kReadBytes = 16 << 10;
// One call of Proceed reads at most this many bytes. A client that sends faster than the parser
// reads must not keep the thread, which serves others too.
constexpr size_t kMostAtOnce = 256 << 10;
// While a request is answered, at most this many bytes of the next one are read.
constexpr size_t kMostFollowing = 64 << 10;
// If a client sends more than this after the last answer, the connection is closed at once.
constexpr size_t kMostIgnored = 1 << 20;

}  // namespace

HttpConnection::HttpConnection(std::unique_ptr<ByteStream> stream, const RequestLimits& limits,
                               const ConnectionTimes& times, OnRequest on_request,
                               std::function<void()> wake)
    : stream_(std::move(stream)),
      times_(times),
      on_request_(std::move(on_request)),
      wake_(std::move(wake)),
      reader_(limits),
      deadline_(MonotonicTime::Now() + times.request) {}

HttpConnection::~HttpConnection() {
  if (exchange_ != nullptr) exchange_->Leave();
}

size_t HttpConnection::held_bytes() const {
  const size_t answered = exchange_ == nullptr ? 0 : exchange_->request().body.size();
  return reader_.held_bytes() + out_.capacity() + answered;
}

bool HttpConnection::idle() const {
  return state_ == State::kReading && reader_.state() == RequestReader::State::kIdle;
}

void HttpConnection::Proceed() {
  // An answer may free the way for the next request, which came with the one before.
  bool moved = true;
  may_read_ = kMostAtOnce;
  while (moved && (state_ == State::kReading || state_ == State::kAnswering)) {
    moved = Read();
    moved = Write() || moved;
  }
  if (state_ == State::kClosing) DrainAndEnd();
}

// Returns whether something has changed.
bool HttpConnection::Read() {
  std::array<char, kReadBytes> bytes;
  bool moved = false;
  while (state_ == State::kReading || reader_.held_bytes() < kMostFollowing) {
    if (state_ == State::kReading && TakeRequest()) return true;
    if (may_read_ == 0) {
      wake_();
      return false;
    }
    const ByteStream::Moved read = stream_->Read(bytes.data(), bytes.size());
    if (read.outcome == ByteStream::Outcome::kWait) break;
    if (read.outcome != ByteStream::Outcome::kDone) {
      malformed_ = malformed_ || read.outcome == ByteStream::Outcome::kWrong;
      state_ = State::kEnded;
      return false;
    }
    moved = true;
    may_read_ -= std::min(may_read_, read.bytes);
    reader_.Add(bytes.data(), read.bytes);
  }
  return moved;
}

// Goes on with what the reader has, which may have come before the last answer. Returns whether
// there is an answer now.
bool HttpConnection::TakeRequest() {
  if (reader_.state() == RequestReader::State::kComplete) {
    BeginExchange(reader_.Take());
    return true;
  }
  if (reader_.state() == RequestReader::State::kBad) {
    malformed_ = true;
    SendProblem();
    return true;
  }
  if (reader_.TakeExpectsContinue()) out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  if (!request_began_ && reader_.state() != RequestReader::State::kIdle) {
    request_began_ = true;
    deadline_ = MonotonicTime::Now() + times_.request;
  }
  return false;
}

void HttpConnection::BeginExchange(HttpRequest request) {
  state_ = State::kAnswering;
  served_ = true;
  request_began_ = false;
  deadline_ = MonotonicTime::InfiniteFuture();  // the handler's time is not the client's
  exchange_ = std::make_shared<Exchange>(std::move(request), wake_);
  on_request_(exchange_);
}

void HttpConnection::SendProblem() {
  HttpRequest none;
  none.keep_alive = false;
  state_ = State::kAnswering;
  exchange_ = std::make_shared<Exchange>(std::move(none), wake_);
  exchange_->Answer(ProblemAnswer(reader_.problem().status, reader_.problem().text));
}

void HttpConnection::Refuse(int status, std::string text) {
  if (state_ != State::kReading) {
    state_ = State::kEnded;
    return;
  }
  reader_.Refuse({status, std::move(text)});
  SendProblem();
  Proceed();
}

// Returns whether the connection can read its next request now.
bool HttpConnection::Write() {
  while (state_ != State::kEnded) {
    if (written_ == out_.size()) {
      out_.clear();
      written_ = 0;
      if (exchange_ != nullptr) exchange_->TakeBytes(&out_);
      if (out_.empty()) break;
      if (state_ == State::kAnswering) deadline_ = MonotonicTime::Now() + times_.unread;
    }
    const ByteStream::Moved moved = stream_->Write(std::string_view(out_).substr(written_));
    if (moved.outcome == ByteStream::Outcome::kWait) return false;
    if (moved.outcome != ByteStream::Outcome::kDone) {
      state_ = State::kEnded;
      return false;
    }
    written_ += moved.bytes;
    if (state_ == State::kAnswering) deadline_ = MonotonicTime::Now() + times_.unread;
  }
  if (state_ != State::kAnswering) return false;
  if (!exchange_->ended()) {
    deadline_ = MonotonicTime::InfiniteFuture();  // all that there is was written
    return false;
  }
  const bool closes = exchange_->closes();
  exchange_ = nullptr;
  if (closes) {
    stream_->CloseForWriting();
    state_ = State::kClosing;
    deadline_ = MonotonicTime::Now() + times_.unread;
    return false;
  }
  state_ = State::kReading;
  request_began_ = reader_.state() != RequestReader::State::kIdle;
  deadline_ = MonotonicTime::Now() + (request_began_ ? times_.request : times_.idle);
  return true;
}

// If a socket is closed before all bytes are read from it, the kernel resets the connection, and
// the client may lose the answer. So read until the client closes its side.
void HttpConnection::DrainAndEnd() {
  std::array<char, kReadBytes> bytes;
  while (ignored_ < kMostIgnored) {
    // The bytes are not looked at, so TLS does not matter.
    const ssize_t count = recv(descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) break;
    ignored_ += static_cast<size_t>(count);
  }
  state_ = State::kEnded;
}

}  // namespace longstream::gateway
