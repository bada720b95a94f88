// Keeps the connections, their deadlines and the memory that they hold.
#include "gateway/http/http_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <exception>

#include "absl/strings/str_cat.h"
#include "gateway/http/problem.h"
#include "service/connections/listening_sockets.h"

namespace longstream::gateway {
namespace {

// The kernel ends a connection whose client does not acknowledge bytes for this long.
constexpr absl::Duration kAcknowledgement = absl::Minutes(1);
// The handler makes the JSON of the body, and of this another request. Small values take several
// times as much memory as their text.
constexpr uint64_t kCopies = 8;

}  // namespace

HttpServer::HttpServer(const Options& options, Handler handler)
    : options_(options),
      handler_(std::move(handler)),
      threads_(options.max_requests),
      short_threads_(options.max_short_requests) {
  if (options.certificates != nullptr) {
    tls_.emplace(options.certificates, options.client_certificates);
  }
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                              Handler handler) {
  absl::StatusOr<ListeningSockets> listening = Listen(options.listen, kAcknowledgement);
  if (!listening.ok()) return listening.status();
  absl::StatusOr<std::unique_ptr<AcceptLoop>> loop =
      AcceptLoop::Create(std::move(listening->sockets));
  if (!loop.ok()) return loop.status();
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(handler)));
  server->port_ = listening->port;
  server->loop_ = *std::move(loop);
  server->loop_->Start(server.get());
  return server;
}

HttpServer::~HttpServer() { Shutdown(absl::ZeroDuration()); }

void HttpServer::StopAccepting() {
  if (loop_ != nullptr) loop_->StopAccepting();
}

void HttpServer::WaitForAnswers(absl::Duration timeout) {
  StopAccepting();
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &HttpServer::HasAnswered), timeout);
}

void HttpServer::Shutdown(absl::Duration grace) {
  if (loop_ == nullptr) return;
  WaitForAnswers(grace);
  {
    absl::MutexLock lock(&mutex_);
    end_all_ = true;
  }
  loop_->CallSoon();
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_all_));
  }
  // The handlers call the loop.
  threads_.WaitUntilIdle(absl::InfiniteDuration());
  short_threads_.WaitUntilIdle(absl::InfiniteDuration());
  loop_ = nullptr;
}

void HttpServer::OnConnection(Descriptor connection, const sockaddr_storage& /*peer*/) {
  if (options_.metrics != nullptr) options_.metrics->CountAccepted();
  if (places_.size() >= options_.max_connections && !EndIdle()) {
    return Count(RefusedConnection::kTotal);
  }
  const int descriptor = connection.number();
  if (!loop_->Watch(descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
    return Count(RefusedConnection::kDescriptors);
  }
  std::unique_ptr<ByteStream> stream = StreamOn(std::move(connection));
  if (stream == nullptr) return Count(RefusedConnection::kProtocol);
  Place& place = places_[descriptor];
  place.connection = std::make_unique<HttpConnection>(
      std::move(stream), options_.limits, options_.times,
      [this](const std::shared_ptr<Exchange>& exchange) { BeginAnswer(exchange); },
      [this, descriptor] { Wake(descriptor); });
  place.deadline = place.connection->deadline();
  deadlines_.emplace(place.deadline, descriptor);
  Proceed(descriptor);
}

void HttpServer::OnNoDescriptor() {
  if (options_.metrics != nullptr) options_.metrics->CountAccepted();
  Count(RefusedConnection::kDescriptors);
}

void HttpServer::OnAcceptingStopped() {
  draining_ = true;
  while (EndIdle()) {
  }
}

void HttpServer::Count(RefusedConnection reason) const {
  if (options_.metrics != nullptr) options_.metrics->CountRefused(reason);
}

std::unique_ptr<ByteStream> HttpServer::StreamOn(Descriptor connection) {
  if (tls_.has_value()) return tls_->Accept(std::move(connection));
  return std::make_unique<PlainStream>(std::move(connection));
}

void HttpServer::BeginAnswer(const std::shared_ptr<Exchange>& exchange) {
  if (draining_) exchange->Close();
  const uint64_t bytes = kCopies * exchange->request().body.size();
  if (held_bytes_ + handled_bytes_ + bytes > options_.max_held_bytes) {
    return exchange->Answer(BusyAnswer(TooManyBytes()));
  }
  handled_bytes_ += bytes;
  const bool is_short = options_.is_short && options_.is_short(exchange->request());
  const bool begun = (is_short ? short_threads_ : threads_).Run([this, exchange, bytes] {
    try {
      handler_(*exchange);
    } catch (const std::exception& error) {
      exchange->Answer(ProblemAnswer(500, error.what()));
    }
    if (!exchange->answered()) exchange->Answer(ProblemAnswer(500, "the request has no answer"));
    handled_bytes_ -= bytes;
    exchange->EndEvents();
  });
  if (begun) return;
  handled_bytes_ -= bytes;
  exchange->Answer(
      BusyAnswer(absl::StrCat(is_short ? options_.max_short_requests : options_.max_requests,
                              " requests are being answered; try again")));
}

void HttpServer::Wake(int descriptor) {
  {
    absl::MutexLock lock(&mutex_);
    woken_.insert(descriptor);
  }
  loop_->CallSoon();
}

void HttpServer::OnReady(int descriptor) { Proceed(descriptor); }

void HttpServer::Proceed(int descriptor) {
  const auto found = places_.find(descriptor);
  if (found == places_.end()) return;
  found->second.connection->Proceed();
  Settle(descriptor);
}

std::string HttpServer::TooManyBytes() const {
  return absl::StrCat("all requests together may hold ", options_.max_held_bytes,
                      " bytes; try again");
}

void HttpServer::SetSums(Place& place, size_t held_bytes, bool answering) {
  held_bytes_ = held_bytes_ - place.held_bytes + held_bytes;
  place.held_bytes = held_bytes;
  if (place.answering == answering) return;
  place.answering = answering;
  absl::MutexLock lock(&mutex_);
  answering_ += answering ? 1 : -1;
}

void HttpServer::Settle(int descriptor) {
  Place& place = places_.at(descriptor);
  HttpConnection& connection = *place.connection;
  const auto sum = [&] {
    SetSums(place, connection.held_bytes(),
            connection.state() == HttpConnection::State::kAnswering);
  };
  sum();
  if (held_bytes_ + handled_bytes_ > options_.max_held_bytes && !connection.idle() &&
      connection.state() == HttpConnection::State::kReading) {
    connection.Refuse(503, TooManyBytes());
    sum();
  }
  if (connection.state() == HttpConnection::State::kEnded) return Remove(descriptor, false);
  if (connection.deadline() == place.deadline) return;
  deadlines_.erase({place.deadline, descriptor});
  place.deadline = connection.deadline();
  deadlines_.emplace(place.deadline, descriptor);
}

void HttpServer::Remove(int descriptor, bool timed_out) {
  const auto found = places_.find(descriptor);
  Place& place = found->second;
  if (!place.connection->served()) {
    if (place.connection->malformed()) {
      Count(RefusedConnection::kProtocol);
    } else if (timed_out) {
      Count(RefusedConnection::kTimeout);
    }
  }
  SetSums(place, 0, false);
  deadlines_.erase({place.deadline, descriptor});
  places_.erase(found);
}

bool HttpServer::EndIdle() {
  for (const auto& [deadline, descriptor] : deadlines_) {
    if (!places_.at(descriptor).connection->idle()) continue;
    Remove(descriptor, false);
    return true;
  }
  return false;
}

MonotonicTime HttpServer::OnTime(MonotonicTime now) {
  std::set<int> woken;
  bool end_all = false;
  {
    absl::MutexLock lock(&mutex_);
    woken.swap(woken_);
    end_all = end_all_;
  }
  for (const int descriptor : woken) Proceed(descriptor);
  while (!deadlines_.empty() && (end_all || deadlines_.begin()->first <= now)) {
    Remove(deadlines_.begin()->second, !end_all);
  }
  if (options_.metrics != nullptr) options_.metrics->SetOpen(places_.size());
  if (end_all) {
    absl::MutexLock lock(&mutex_);
    ended_all_ = true;
  }
  return deadlines_.empty() ? MonotonicTime::InfiniteFuture() : deadlines_.begin()->first;
}

}  // namespace longstream::gateway
