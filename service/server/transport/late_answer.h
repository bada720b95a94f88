// A unary call that waits for something that may take long.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_LATE_ANSWER_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_LATE_ANSWER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {

// The call ends with its answer, or when its caller has gone. Thread-safe.
template <typename Response>
class LateAnswer final : public grpc::ServerUnaryReactor,
                         public std::enable_shared_from_this<LateAnswer<Response>> {
 public:
  // `counted`: destroyed when the call is done. `response`: of the call.
  static std::shared_ptr<LateAnswer> Make(std::shared_ptr<void> counted, Response* response) {
    std::shared_ptr<LateAnswer> call(new LateAnswer(std::move(counted), response));
    call->self_ = call;
    return call;
  }

  // Later answers have no effect.
  void Answer(absl::StatusOr<Response> answer) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(answered_, true)) return;
    }
    const auto self = this->shared_from_this();  // Finish may end the call
    const grpc::Status status = ToGrpc(answer.status());
    if (answer.ok()) *response_ = *std::move(answer);
    Finish(status);
  }

  // Whether the call has its answer, or its caller has gone.
  bool answered() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return answered_;
  }

  void OnCancel() override { Answer(absl::CancelledError("the caller cancelled the call")); }
  void OnDone() override {
    counted_.reset();
    self_.reset();
  }

 private:
  LateAnswer(std::shared_ptr<void> counted, Response* response)
      : counted_(std::move(counted)), response_(response) {}

  std::shared_ptr<void> counted_;  // it may be of any kind
  Response* const response_;
  std::shared_ptr<LateAnswer> self_;  // keeps this object alive until OnDone
  mutable absl::Mutex mutex_;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_LATE_ANSWER_H_
