// The common parts of the calls of this replica to its peers.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/time_limit.h"

namespace longstream {

// Sets the credential and the deadline. The call waits for a connection, because the replica may
// just have been replaced.
inline void PrepareCall(const PeerLine& line, absl::Duration most, grpc::ClientContext* context) {
  context->set_wait_for_ready(true);
  if (most < absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(most));
  }
  if (!line.token.empty()) context->AddMetadata("authorization", "Bearer " + line.token);
}

// The numbers of the codes do not change.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

// A call that carries a stream. gRPC's hold keeps it open while no operation runs on it, because
// one may begin on another thread.
template <typename Reactor>
class HeldCall : public Reactor,
                 public OpenCall,
                 public std::enable_shared_from_this<HeldCall<Reactor>> {
 public:
  void End(const absl::Status& /*why*/) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    wanted_ = false;
    Stop();
  }

 protected:
  // `most`: of the whole call.
  HeldCall(PeerCore* core, const PeerLine& line, fleet::Number number, absl::Duration most)
      : core_(core),
        counted_(&core->count()),
        key_{line.peer, number},
        stub_(peer::v1::Peer::NewStub(line.channel)),
        limit_(&core->timers()) {
    PrepareCall(line, most, &context_);
  }

  // Adds the call to the open ones, and keeps it alive until OnDone. Before it is bound to gRPC.
  absl::Status Add(OpenCalls::Kind kind, const SessionKey& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Status status = core_->calls().Add(key_, kind, session, this->shared_from_this());
    if (status.ok()) self_ = this->shared_from_this();
    return status;
  }
  // Ends the call if the wait that begins now takes longer.
  void Limit(absl::Duration most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    limit_.Set(most, [self = this->shared_from_this()](uint64_t wait) {
      absl::MutexLock lock(&self->mutex_);
      if (self->limit_.Is(wait)) self->Stop();
    });
  }
  // Ends the call.
  void Stop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!held_) return;
    context_.TryCancel();
    LetGo();
  }
  // No operation begins any more.
  void LetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    limit_.Clear();
    if (std::exchange(held_, false)) this->RemoveHold();
  }

  PeerCore* const core_;
  const CallCount::Call counted_;
  const OpenCalls::Key key_;
  grpc::ClientContext context_;
  const std::unique_ptr<peer::v1::Peer::Stub> stub_;
  absl::Mutex mutex_;
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;  // End was not called
  TimeLimit limit_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<HeldCall> self_;  // keeps this object alive until OnDone
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_
