// The time limit of the client of a transfer, or of a repeated Append.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSFER_CLIENT_WATCH_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSFER_CLIENT_WATCH_H_

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"

namespace longstream {

// Ends a call whose client neither reads nor sends for too long, or when the server stops. Used by
// one thread at a time, but for the timer.
//
// A message that the client does not read has no end, and a reactor cannot finish before it. So the
// watch cancels the call in gRPC's core: that drops the message, sends the status past it, and ends
// the reactor's operation with `ok` = false. ServerContext::TryCancel does the same, with CANCELLED
// and without a message.
class ClientWatch {
 public:
  // `timers` must outlive the watch.
  ClientWatch(grpc::CallbackServerContext* context, Timers* timers, absl::Duration timeout)
      : call_(context->c_call()), timers_(timers), timeout_(timeout) {
    // The timer may call while the call ends on another thread.
    grpc_call_ref(call_);
  }
  ~ClientWatch() { grpc_call_unref(call_); }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  // The call begins to wait for its client. `owner` keeps this object alive until End.
  void Begin(std::shared_ptr<void> owner) {
    const MonotonicTime end = MonotonicTime::Now() + timeout_;
    timer_ = timers_->Set(end, [this, end, owner = std::move(owner)] {
      // Timers::CallBy shortens all times when the server stops.
      state_.store(MonotonicTime::Now() < end ? State::kStopped : State::kExpired);
      const absl::Status why = Why();
      grpc_call_cancel_with_status(call_, static_cast<grpc_status_code>(why.code()),
                                   std::string(why.message()).c_str(), nullptr);
    });
  }
  // The wait has ended.
  void End() { timers_->Cancel(timer_); }

  // Whether the watch has ended the call, also if gRPC has not told the reactor so yet.
  bool expired() const { return state_.load() != State::kWaits; }
  // Why the wait has ended without a message.
  absl::Status Why() const {
    switch (state_.load()) {
      case State::kExpired:
        return absl::DeadlineExceededError(
            absl::StrCat("the client has neither read nor sent anything for ",
                         absl::FormatDuration(timeout_), ", scheduler.client_timeout"));
      case State::kStopped:
        return absl::UnavailableError("the server is shutting down");
      case State::kWaits:
        break;
    }
    return absl::CancelledError("the caller cancelled the call");
  }

 private:
  enum class State { kWaits, kExpired, kStopped };

  grpc_call* const call_;
  Timers* const timers_;
  const absl::Duration timeout_;
  Timers::Id timer_ = 0;
  std::atomic<State> state_{State::kWaits};
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_CLIENT_WATCH_H_
