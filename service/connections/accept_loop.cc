// The loop itself, and the errors of accept().
#include "service/connections/accept_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// Connections that are accepted from one socket before the loop looks at other events. A flood of
// connections must not delay what earlier connections send.
constexpr int kAcceptsPerEvent = 16;
constexpr int kEventsPerWait = 64;
// How long the loop accepts nothing after an error that another try would meet again.
constexpr absl::Duration kPause = absl::Milliseconds(100);

enum class AcceptError { kNone, kNoDescriptor, kThisConnection, kOther };

AcceptError Classify(int error) {
  switch (error) {
    case EAGAIN:
      return AcceptError::kNone;
    case EMFILE:
    case ENFILE:
      return AcceptError::kNoDescriptor;
    case EINTR:
    // accept() reports errors of the network that the new connection has met already.
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ETIMEDOUT:
    case EPERM:  // a firewall forbids the connection
      return AcceptError::kThisConnection;
    default:  // for example ENOMEM
      return AcceptError::kOther;
  }
}

Descriptor Accept(int listener, sockaddr_storage* peer) {
  socklen_t size = sizeof(*peer);
  return Descriptor(
      accept4(listener, reinterpret_cast<sockaddr*>(peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Descriptor NewEvent() { return Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

// The time from `now` to `until` for epoll_wait. At least 1 ms, so that a moment in the past does
// not make the loop spin.
int WaitMilliseconds(MonotonicTime now, MonotonicTime until) {
  if (until == MonotonicTime::InfiniteFuture()) return -1;
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  constexpr absl::Duration kMost = absl::Minutes(1);
  const absl::Duration wait = std::clamp(until - now, kLeast, kMost);
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, kLeast)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Create(std::vector<Descriptor> listeners) {
  std::unique_ptr<AcceptLoop> loop(new AcceptLoop());
  loop->poller_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = NewEvent();
  loop->reserve_ = NewEvent();
  loop->listeners_ = std::move(listeners);
  bool ok = loop->poller_.open() && loop->wake_.open() && loop->reserve_.open();
  ok = ok && loop->Watch(loop->wake_.number(), EPOLLIN);
  if (ok) return loop;
  return absl::ResourceExhaustedError(
      absl::StrCat("no descriptor for accepting connections: ", std::strerror(errno)));
}

void AcceptLoop::Start(ConnectionHandler* handler) {
  handler_ = handler;
  resume_at_ = MonotonicTime::InfinitePast();  // watch the listeners at once
  thread_ = std::thread([this] { Run(); });
}

AcceptLoop::~AcceptLoop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    must_end_ = true;
  }
  Wake();
  thread_.join();
}

void AcceptLoop::StopAccepting() {
  absl::MutexLock lock(&mutex_);
  must_stop_accepting_ = true;
  Wake();
  mutex_.Await(absl::Condition(
      +[](bool* accepting) { return !*accepting; }, &accepting_));
}

bool AcceptLoop::Watch(int descriptor, uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.fd = descriptor;
  return epoll_ctl(poller_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void AcceptLoop::Unwatch(int descriptor) {
  epoll_event unused{};
  epoll_ctl(poller_.number(), EPOLL_CTL_DEL, descriptor, &unused);
}

void AcceptLoop::Run() {
  while (ObeyRequests()) {
    const MonotonicTime now = MonotonicTime::Now();
    ResumeIfDue(now);
    Wait(std::min(handler_->OnTime(now), resume_at_));
  }
}

bool AcceptLoop::ObeyRequests() {
  {
    absl::MutexLock lock(&mutex_);
    if (must_end_) return false;
    if (!must_stop_accepting_ || !accepting_) return true;
  }
  listeners_.clear();
  resume_at_ = MonotonicTime::InfiniteFuture();
  handler_->OnAcceptingStopped();
  absl::MutexLock lock(&mutex_);
  accepting_ = false;
  return true;
}

void AcceptLoop::Wait(MonotonicTime until) {
  std::array<epoll_event, kEventsPerWait> events;
  const int count = epoll_wait(poller_.number(), events.data(), kEventsPerWait,
                               WaitMilliseconds(MonotonicTime::Now(), until));
  for (int i = 0; i < count; ++i) {
    const int ready = events[static_cast<size_t>(i)].data.fd;
    if (ready == wake_.number()) {
      eventfd_t woken = 0;
      eventfd_read(ready, &woken);
    } else if (IsListener(ready)) {
      AcceptFrom(ready);
    } else {
      handler_->OnReady(ready);
    }
  }
}

bool AcceptLoop::IsListener(int descriptor) const {
  return std::any_of(
      listeners_.begin(), listeners_.end(),
      [descriptor](const Descriptor& listener) { return listener.number() == descriptor; });
}

void AcceptLoop::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    sockaddr_storage peer{};
    Descriptor accepted = Accept(listener, &peer);
    if (accepted.open()) {
      handler_->OnConnection(std::move(accepted), peer);
      continue;
    }
    switch (Classify(errno)) {
      case AcceptError::kNone:
        return;
      case AcceptError::kThisConnection:
        break;
      case AcceptError::kNoDescriptor:
        if (!RefuseWithReserve(listener)) return;
        break;
      case AcceptError::kOther:
        return Pause();
    }
  }
}

bool AcceptLoop::RefuseWithReserve(int listener) {
  reserve_.Close();
  sockaddr_storage peer{};
  const bool accepted = Accept(listener, &peer).open();  // and closed at once
  const AcceptError error = accepted ? AcceptError::kNone : Classify(errno);
  reserve_ = NewEvent();
  if (accepted) handler_->OnNoDescriptor();
  // Another thread may have taken the descriptor that was free for a moment. Then the loop pauses
  // and tries again.
  if (!reserve_.open() || error == AcceptError::kNoDescriptor) Pause();
  return accepted && reserve_.open();
}

void AcceptLoop::Pause() {
  for (const Descriptor& listener : listeners_) Unwatch(listener.number());
  resume_at_ = MonotonicTime::Now() + kPause;
}

void AcceptLoop::ResumeIfDue(MonotonicTime now) {
  if (now < resume_at_) return;
  resume_at_ = MonotonicTime::InfiniteFuture();
  if (!reserve_.open()) reserve_ = NewEvent();
  for (const Descriptor& listener : listeners_) {
    // Level-triggered, because AcceptFrom may leave connections in the queue.
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = listener.number();
    if (epoll_ctl(poller_.number(), EPOLL_CTL_ADD, listener.number(), &event) != 0) return Pause();
  }
}

void AcceptLoop::Wake() const { eventfd_write(wake_.number(), 1); }

}  // namespace longstream
