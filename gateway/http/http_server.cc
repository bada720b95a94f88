// Keeps the connections, their deadlines and the memory that they hold.
#include "gateway/http/http_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <exception>

#include "absl/strings/str_cat.h"
#include "gateway/http/problem.h"
#include "service/connections/descriptor_shares.h"
#include "service/connections/listening_sockets.h"

namespace longstream::gateway {
namespace {

// The kernel ends a connection whose client does not acknowledge bytes for this long.
constexpr absl::Duration kAcknowledgement = absl::Minutes(1);

}  // namespace

HttpServer::HttpServer(const Options& options, Handler handler)
    : options_(options), handler_(std::move(handler)), threads_(options.max_requests) {
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

void HttpServer::Shutdown(absl::Duration grace) {
  if (loop_ == nullptr) return;
  StopAccepting();
  threads_.WaitUntilIdle(grace);
  {
    absl::MutexLock lock(&mutex_);
    end_all_ = true;
  }
  loop_->CallSoon();
  threads_.WaitUntilIdle(absl::InfiniteDuration());
  loop_ = nullptr;  // no further call of this object
  places_.clear();
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
      [this](std::shared_ptr<Exchange> exchange) { BeginAnswer(std::move(exchange)); },
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

void HttpServer::Count(RefusedConnection reason) {
  if (options_.metrics != nullptr) options_.metrics->CountRefused(reason);
}

std::unique_ptr<ByteStream> HttpServer::StreamOn(Descriptor connection) {
  if (tls_.has_value()) return tls_->Accept(std::move(connection));
  return std::make_unique<PlainStream>(std::move(connection));
}

void HttpServer::BeginAnswer(std::shared_ptr<Exchange> exchange) {
  if (draining_) exchange->Close();
  const bool begun = threads_.Run([this, exchange] {
    try {
      handler_(*exchange);
    } catch (const std::exception& error) {
      exchange->Answer(ProblemAnswer(500, error.what()));
    }
    if (!exchange->answered()) exchange->Answer(ProblemAnswer(500, "the request has no answer"));
    exchange->EndEvents();
  });
  if (begun) return;
  HttpAnswer busy = ProblemAnswer(
      503, absl::StrCat(options_.max_requests, " requests are being answered; try again"));
  busy.headers.emplace_back("Retry-After", "1");
  exchange->Answer(busy);
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

void HttpServer::Settle(int descriptor) {
  Place& place = places_.at(descriptor);
  HttpConnection& connection = *place.connection;
  if (connection.state() == HttpConnection::State::kAnswering) place.served = true;
  held_bytes_ -= place.held_bytes;
  place.held_bytes = connection.held_bytes();
  held_bytes_ += place.held_bytes;
  if (held_bytes_ > options_.max_held_bytes &&
      connection.state() == HttpConnection::State::kReading) {
    connection.Refuse(503, absl::StrCat("all requests together may hold ", options_.max_held_bytes,
                                        " bytes; try again"));
  }
  if (connection.state() == HttpConnection::State::kEnded) {
    if (connection.malformed() && !place.served) Count(RefusedConnection::kProtocol);
    return Remove(descriptor);
  }
  if (connection.deadline() == place.deadline) return;
  deadlines_.erase({place.deadline, descriptor});
  place.deadline = connection.deadline();
  deadlines_.emplace(place.deadline, descriptor);
}

void HttpServer::Remove(int descriptor) {
  const auto found = places_.find(descriptor);
  held_bytes_ -= found->second.held_bytes;
  deadlines_.erase({found->second.deadline, descriptor});
  places_.erase(found);
}

bool HttpServer::EndIdle() {
  for (const auto& [deadline, descriptor] : deadlines_) {
    if (!places_.at(descriptor).connection->idle()) continue;
    Remove(descriptor);
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
    const int descriptor = deadlines_.begin()->second;
    if (!end_all && !places_.at(descriptor).served) Count(RefusedConnection::kTimeout);
    Remove(descriptor);
  }
  if (options_.metrics != nullptr) options_.metrics->SetOpen(places_.size());
  return deadlines_.empty() ? MonotonicTime::InfiniteFuture() : deadlines_.begin()->first;
}

}  // namespace longstream::gateway
