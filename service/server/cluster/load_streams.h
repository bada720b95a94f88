// Streams of messages about the load, which a meter drives.
#ifndef LONGSTREAM_SERVICE_SERVER_CLUSTER_LOAD_STREAMS_H_
#define LONGSTREAM_SERVICE_SERVER_CLUSTER_LOAD_STREAMS_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/load/load_meter.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {

struct LoadStreamLimits {
  size_t max_streams = 256;  // further ones are RESOURCE_EXHAUSTED
  // A stream is cancelled if its client has not taken a message after this time.
  absl::Duration patience = absl::Seconds(30);
};

// The streams of one method. A stream has at most one message on its way, and needs no thread.
// Thread-safe. Must outlive its calls.
template <typename Response>
class LoadStreams final : private LoadListener {
 public:
  using Reactor = grpc::ServerWriteReactor<Response>;
  // Makes the next message of a stream, or returns false if it has none to send. Called when the
  // stream begins and for each load that is measured then; by one thread at a time. While a message
  // is on its way, it is not called; the last load of that time follows.
  using Compose = std::function<bool(const Load& load, Response* message)>;

  // `meter` must outlive the object.
  LoadStreams(LoadMeter* meter, const LoadStreamLimits& limits)
      : meter_(meter), limits_(limits), latest_(meter->Latest()) {
    meter_->AddListener(this);
  }
  ~LoadStreams() override { meter_->RemoveListener(this); }
  LoadStreams(const LoadStreams&) = delete;
  LoadStreams& operator=(const LoadStreams&) = delete;

  Reactor* Open(grpc::CallbackServerContext* context, Compose compose) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (streams_.size() >= limits_.max_streams) {
      return new Ended(absl::ResourceExhaustedError(
          absl::StrCat("streams are open: ", streams_.size(), ", which is the limit")));
    }
    auto* const stream = new Stream(this, context, std::move(compose));
    streams_.insert(stream);
    stream->Tell(latest_);
    return stream;
  }
  // A call that ends before it has begun.
  static Reactor* Refuse(const absl::Status& status) { return new Ended(status); }

  size_t open() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return streams_.size();
  }

 private:
  class Ended final : public Reactor {
   public:
    explicit Ended(const absl::Status& status) { this->Finish(ToGrpc(status)); }
    void OnDone() override { delete this; }
  };

  class Stream final : public Reactor {
   public:
    Stream(LoadStreams* streams, grpc::CallbackServerContext* context, Compose compose)
        : streams_(streams), context_(context), compose_(std::move(compose)) {}

    // REQUIRES: the mutex of the streams is held.
    void Tell(const Load& latest) {
      if (finished_) return;
      missed_ = writing_;
      if (writing_) {
        // OnCancel ends the call.
        if (MonotonicTime::Now() - began_ > streams_->limits_.patience) context_->TryCancel();
        return;
      }
      if (!compose_(latest, &message_)) return;
      writing_ = true;
      began_ = MonotonicTime::Now();
      this->StartWrite(&message_);
    }

    void OnWriteDone(bool ok) override {
      absl::MutexLock lock(&streams_->mutex_);
      writing_ = false;
      if (!ok) return FinishOnce();
      if (missed_) Tell(streams_->latest_);
    }
    void OnCancel() override {
      absl::MutexLock lock(&streams_->mutex_);
      FinishOnce();
    }
    void OnDone() override {
      {
        absl::MutexLock lock(&streams_->mutex_);
        streams_->streams_.erase(this);
      }
      delete this;
    }

   private:
    void FinishOnce() {
      if (!std::exchange(finished_, true)) this->Finish(grpc::Status::CANCELLED);
    }

    LoadStreams* const streams_;
    grpc::CallbackServerContext* const context_;
    const Compose compose_;
    Response message_;     // the one on its way
    MonotonicTime began_;  // when it was given to gRPC
    bool writing_ = false;
    bool missed_ = false;  // a load was measured while the message was on its way
    bool finished_ = false;
  };

  void OnLoad(const Load& load) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    latest_ = load;
    for (Stream* const stream : streams_) stream->Tell(latest_);
  }

  LoadMeter* const meter_;
  const LoadStreamLimits limits_;
  mutable absl::Mutex mutex_;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  Load latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_CLUSTER_LOAD_STREAMS_H_
