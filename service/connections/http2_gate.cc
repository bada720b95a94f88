// Limits, deadlines and the first bytes of HTTP/2 or TLS.
#include "service/connections/http2_gate.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "service/connections/peer_address.h"

namespace longstream {
namespace {

// Every client of HTTP/2 begins with these bytes (RFC 9113, section 3.4).
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// The header of the record in which every client of TLS begins (RFC 8446, sections 4 and 5.1): the
// type handshake, a version 3.x, the record's length, and the type of message ClientHello.
constexpr size_t kTlsBytes = 6;

constexpr absl::Duration kSweepInterval = absl::Seconds(1);
// A full gate spends at most one part in 20 of its time with looking for ended connections, even if
// a flood of connections arrives.
constexpr int kSweepShare = 20;

enum class Preface { kComplete, kIncomplete, kWrong, kConnectionEnded };

// Whether the client has closed its side, or the connection has failed.
bool HasEnded(int socket) {
  pollfd ended{socket, POLLRDHUP, 0};
  return poll(&ended, 1, 0) > 0;
}

bool BeginsTls(std::string_view seen) {
  constexpr char kHandshake = 22, kMajorVersion = 3, kClientHello = 1;
  return seen[0] == kHandshake && (seen.size() < 2 || seen[1] == kMajorVersion) &&
         (seen.size() < kTlsBytes || seen[kTlsBytes - 1] == kClientHello);
}

// Looks at the first bytes of a connection and leaves them in the socket.
Preface PeekPreface(int socket, bool tls) {
  const size_t needed = tls ? kTlsBytes : kPreface.size();
  std::array<char, kPreface.size()> bytes;
  const ssize_t count = recv(socket, bytes.data(), needed, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR ? Preface::kIncomplete : Preface::kConnectionEnded;
  }
  if (count == 0) return Preface::kConnectionEnded;
  const std::string_view seen(bytes.data(), static_cast<size_t>(count));
  if (!(tls ? BeginsTls(seen) : kPreface.starts_with(seen))) return Preface::kWrong;
  if (seen.size() < needed) {
    return HasEnded(socket) ? Preface::kConnectionEnded : Preface::kIncomplete;
  }
  // The bytes can still be read after the client has reset the connection. gRPC would log an error.
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  const bool connected = getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  return connected ? Preface::kComplete : Preface::kConnectionEnded;
}

}  // namespace

Http2Gate::Http2Gate(const Options& options, HandOver hand_over)
    : options_(options), hand_over_(std::move(hand_over)) {}

Http2Gate::~Http2Gate() = default;

absl::StatusOr<std::unique_ptr<Http2Gate>> Http2Gate::Start(ListeningSockets listening,
                                                            const Options& options,
                                                            HandOver hand_over) {
  absl::StatusOr<std::unique_ptr<AcceptLoop>> loop =
      AcceptLoop::Create(std::move(listening.sockets));
  if (!loop.ok()) return loop.status();
  std::unique_ptr<Http2Gate> gate(new Http2Gate(options, std::move(hand_over)));
  gate->loop_ = *std::move(loop);
  gate->loop_->Start(gate.get());
  return gate;
}

void Http2Gate::OnConnection(Descriptor connection, const sockaddr_storage& address) {
  if (options_.metrics != nullptr) options_.metrics->CountAccepted();
  std::string peer = PeerKey(address);
  if (!Admits(peer)) return;
  const int descriptor = connection.number();
  if (!loop_->Watch(descriptor, EPOLLIN | EPOLLRDHUP)) {
    return CountRefused(RefusedConnection::kDescriptors);
  }
  ++by_peer_[peer];
  waiting_.push_back({std::move(connection), address, std::move(peer),
                      MonotonicTime::Now() + options_.preface_timeout});
  waiting_by_descriptor_[descriptor] = std::prev(waiting_.end());
}

bool Http2Gate::Admits(const std::string& peer) {
  if (IsFull() || IsFull(peer)) {
    if (MonotonicTime::Now() - swept_ >= kSweepShare * sweep_took_) Sweep();
  }
  if (IsFull()) {
    CountRefused(RefusedConnection::kTotal);
    return false;
  }
  if (IsFull(peer)) {
    CountRefused(RefusedConnection::kPeer);
    return false;
  }
  return true;
}

bool Http2Gate::IsFull(const std::string& peer) const {
  if (options_.max_per_address == 0) return false;
  const auto found = by_peer_.find(peer);
  return found != by_peer_.end() && found->second >= options_.max_per_address;
}

void Http2Gate::CountRefused(RefusedConnection reason) const {
  if (options_.metrics != nullptr) options_.metrics->CountRefused(reason);
}

void Http2Gate::OnNoDescriptor() {
  if (options_.metrics != nullptr) options_.metrics->CountAccepted();
  CountRefused(RefusedConnection::kDescriptors);
}

void Http2Gate::OnReady(int descriptor) {
  const auto found = waiting_by_descriptor_.find(descriptor);
  if (found == waiting_by_descriptor_.end()) return;
  switch (PeekPreface(descriptor, options_.tls)) {
    case Preface::kIncomplete:
      return;
    case Preface::kComplete:
      return Serve(found->second);
    case Preface::kWrong:
      CountRefused(RefusedConnection::kProtocol);
      return Close(found->second);
    case Preface::kConnectionEnded:
      return Close(found->second);
  }
}

void Http2Gate::Serve(std::list<Waiting>::iterator connection) {
  const int descriptor = connection->socket.number();
  loop_->Unwatch(descriptor);
  handed_over_.Add(descriptor, std::move(connection->peer),
                   [this](const std::string& peer) { ForgetPeer(peer); });
  if (options_.first_requests != nullptr) {
    options_.first_requests->Expect(descriptor, connection->address);
  }
  connection->socket.Release();
  waiting_by_descriptor_.erase(descriptor);
  waiting_.erase(connection);
  hand_over_(descriptor);
}

void Http2Gate::Close(std::list<Waiting>::iterator connection) {
  ForgetPeer(connection->peer);
  waiting_by_descriptor_.erase(connection->socket.number());
  waiting_.erase(connection);
}

void Http2Gate::ForgetPeer(const std::string& peer) {
  const auto found = by_peer_.find(peer);
  if (--found->second == 0) by_peer_.erase(found);
}

void Http2Gate::Sweep() {
  const MonotonicTime begin = MonotonicTime::Now();
  handed_over_.RemoveEnded([this](const std::string& peer) { ForgetPeer(peer); });
  swept_ = MonotonicTime::Now();
  sweep_took_ = swept_ - begin;
}

MonotonicTime Http2Gate::OnTime(MonotonicTime now) {
  while (!waiting_.empty() && waiting_.front().deadline <= now) {
    CountRefused(RefusedConnection::kTimeout);
    Close(waiting_.begin());
  }
  if (options_.first_requests != nullptr) {
    for (size_t ended = options_.first_requests->EndOverdue(now); ended > 0; --ended) {
      CountRefused(RefusedConnection::kTimeout);
    }
  }
  if (now - swept_ >= kSweepInterval) Sweep();
  if (options_.metrics != nullptr) options_.metrics->SetOpen(connections());
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  if (!waiting_.empty()) next = waiting_.front().deadline;
  if (handed_over_.size() > 0) next = std::min(next, swept_ + kSweepInterval);
  if (options_.first_requests != nullptr) {
    next = std::min(next, options_.first_requests->next_deadline());
  }
  return next;
}

void Http2Gate::OnAcceptingStopped() {
  while (!waiting_.empty()) Close(waiting_.begin());
}

}  // namespace longstream
