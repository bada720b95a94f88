// Writes the header of an answer, and the chunks of a stream.
#include "gateway/http/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace longstream::gateway {
namespace {

// A handler that sends faster than its client reads waits at this many bytes.
constexpr size_t kMostUnread = 256 << 10;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Error";
  }
}

}  // namespace

void Exchange::BeginAnswer(int status, std::string_view content_type, const HttpHeaders& headers) {
  closes_ = closes_ || !request_.keep_alive;
  absl::StrAppend(&bytes_, "HTTP/1.1 ", status, " ", View(Reason(status)), "\r\nDate: ",
                  absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
                  "\r\nContent-Type: ", View(content_type), "\r\n");
  if (closes_) {
    bytes_ += "Connection: close\r\n";
  } else if (request_.http_1_0) {
    bytes_ += "Connection: keep-alive\r\n";
  }
  for (const auto& [name, value] : headers) absl::StrAppend(&bytes_, name, ": ", value, "\r\n");
}

void Exchange::Answer(const HttpAnswer& answer) {
  {
    absl::MutexLock lock(&mutex_);
    if (answered_) return;
    answered_ = true;
    BeginAnswer(answer.status, answer.content_type, answer.headers);
    absl::StrAppend(&bytes_, "Content-Length: ", answer.body.size(), "\r\n\r\n");
    if (request_.method != "HEAD") bytes_ += answer.body;
    ended_ = true;
  }
  wake_();
}

void Exchange::BeginEvents(const HttpHeaders& headers) {
  {
    absl::MutexLock lock(&mutex_);
    if (answered_) return;
    answered_ = true;
    // A client of HTTP/1.0 knows no chunks: the end of the connection ends the stream.
    if (request_.http_1_0) closes_ = true;
    BeginAnswer(200, "text/event-stream; charset=utf-8", headers);
    bytes_ += request_.http_1_0 ? "Cache-Control: no-cache\r\n\r\n"
                                : "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
    ended_ = request_.method == "HEAD";
  }
  wake_();
}

bool Exchange::SendEvent(std::string_view event) {
  if (event.empty()) return !gone();  // an empty chunk would end the stream
  bool was_empty = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return gone_ || ended_ || bytes_.size() < kMostUnread;
    };
    mutex_.Await(absl::Condition(&has_room));
    if (gone_ || ended_) return false;
    was_empty = bytes_.empty();
    if (request_.http_1_0) {
      bytes_.append(event);
    } else {
      absl::StrAppend(&bytes_, absl::StrFormat("%x\r\n", event.size()), View(event), "\r\n");
    }
  }
  if (was_empty) wake_();
  return true;
}

void Exchange::EndEvents() {
  {
    absl::MutexLock lock(&mutex_);
    if (!answered_ || ended_) return;
    if (!request_.http_1_0) bytes_ += "0\r\n\r\n";
    ended_ = true;
  }
  wake_();
}

bool Exchange::answered() const {
  absl::MutexLock lock(&mutex_);
  return answered_;
}

void Exchange::OnGone(std::function<void()> on_gone) {
  absl::MutexLock lock(&on_gone_mutex_);
  on_gone_ = std::move(on_gone);
  if (on_gone_ && gone()) on_gone_();
}

bool Exchange::gone() const {
  absl::MutexLock lock(&mutex_);
  return gone_;
}

void Exchange::TakeBytes(std::string* bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes->empty()) {
    bytes->swap(bytes_);
  } else {
    bytes->append(bytes_);
  }
  bytes_.clear();
}

bool Exchange::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_ && bytes_.empty();
}

bool Exchange::closes() const {
  absl::MutexLock lock(&mutex_);
  return closes_;
}

void Exchange::Close() {
  absl::MutexLock lock(&mutex_);
  closes_ = true;
}

void Exchange::Leave() {
  absl::MutexLock lock(&on_gone_mutex_);
  {
    absl::MutexLock state(&mutex_);
    if (gone_) return;
    gone_ = true;
    if (ended_) return;
  }
  if (on_gone_) on_gone_();
}

}  // namespace longstream::gateway
