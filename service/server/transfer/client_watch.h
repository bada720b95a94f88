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

// Ends a call whose client neither reads nor sends for too long. Used by one thread at a time, but
// for the timer.
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
    timer_ = timers_->Set(MonotonicTime::Now() + timeout_, [this, owner = std::move(owner)] {
      has_expired_.store(true);
      grpc_call_cancel_with_status(call_, GRPC_STATUS_DEADLINE_EXCEEDED, Expired().c_str(),
                                   nullptr);
    });
  }
  // The wait has ended.
  void End() { timers_->Cancel(timer_); }

  // Whether the watch has ended the call, also if gRPC has not told the reactor so yet.
  bool expired() const { return has_expired_.load(); }
  // Why the wait has ended without a message.
  absl::Status Why() const {
    if (has_expired_.load()) return absl::DeadlineExceededError(Expired());
    return absl::CancelledError("the caller cancelled the call");
  }

 private:
  std::string Expired() const {
    return absl::StrCat("the client has neither read nor sent anything for ",
                        absl::FormatDuration(timeout_), ", scheduler.client_timeout");
  }

  grpc_call* const call_;
  Timers* const timers_;
  const absl::Duration timeout_;
  Timers::Id timer_ = 0;
  std::atomic<bool> has_expired_{false};
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_CLIENT_WATCH_H_
