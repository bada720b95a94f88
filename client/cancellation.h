// Cancels the calls of one caller, for a program that makes the calls of many.
#ifndef LONGSTREAM_CLIENT_CANCELLATION_H_
#define LONGSTREAM_CLIENT_CANCELLATION_H_

#include <grpcpp/client_context.h>

#include <mutex>
#include <set>

#include "client/connection.h"

namespace longstream::client {

// Thread-safe.
class Cancellation {
 public:
  // Cancels the calls that run. Those that would begin later fail.
  void Cancel() {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* const call : calls_) call->TryCancel();
  }
  // As Cancel, but turns that have an id go on without a reader.
  void Leave() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      leaves_ = true;
    }
    Cancel();
  }
  bool leaves() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return leaves_;
  }
  bool cancelled() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cancelled_;
  }

  // A call begins, and ends. Throws CallError if the calls are cancelled already.
  void Add(grpc::ClientContext* call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_) {
      throw CallError(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
    }
    calls_.insert(call);
  }
  void Remove(grpc::ClientContext* call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.erase(call);
  }

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  bool leaves_ = false;
  std::set<grpc::ClientContext*> calls_;
};

inline bool IsCancelled(const Caller& caller) {
  return caller.cancellation != nullptr && caller.cancellation->cancelled();
}

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CANCELLATION_H_
