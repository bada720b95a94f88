// A call whose turn runs on another replica.
#ifndef LONGSTREAM_SERVICE_SERVER_RELAY_RELAYED_TURN_H_
#define LONGSTREAM_SERVICE_SERVER_RELAY_RELAYED_TURN_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "longstream/v1/longstream.pb.h"
#include "service/server/peer/relayed_stream.h"

namespace longstream {

// Passes the messages of the peer's stream on, one at a time: a client that does not read stops the
// peer. Thread-safe. No function blocks.
class RelayedTurn : public std::enable_shared_from_this<RelayedTurn> {
 public:
  // The functions are called one at a time.
  struct Call {
    std::function<void(v1::GenerateResponse message)> write;  // Written follows
    std::function<void(const absl::Status& status)> finish;   // called once, last
  };
  explicit RelayedTurn(Call call) : call_(std::move(call)) {}

  // Opens the stream. `request`: without its functions. Call it once.
  void Begin(Relays& relays, RelayRequest request) ABSL_LOCKS_EXCLUDED(mutex_);
  // The message was written. False: the client has gone.
  void Written(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has gone.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void OnMessage(v1::GenerateResponse message) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const Call call_;
  absl::Mutex mutex_;
  std::shared_ptr<RelayedStream> stream_ ABSL_GUARDED_BY(mutex_);  // shared with the peer's thread
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // until the last message is written
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_RELAY_RELAYED_TURN_H_
