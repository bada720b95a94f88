// One request of a connection and its answer, as the thread that handles the request sees them.
#ifndef LONGSTREAM_GATEWAY_HTTP_EXCHANGE_H_
#define LONGSTREAM_GATEWAY_HTTP_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gateway/http/http_message.h"

namespace longstream::gateway {

// The handler of a request answers once: with Answer, or with BeginEvents, any number of SendEvent,
// and EndEvents. Thread-safe.
class Exchange {
 public:
  // `wake` is called whenever there are new bytes to write. It must not call the exchange.
  Exchange(HttpRequest request, std::function<void()> wake)
      : request_(std::move(request)), wake_(std::move(wake)) {}

  const HttpRequest& request() const { return request_; }

  void Answer(const HttpAnswer& answer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins a stream of server-sent events. The answer to HEAD ends here.
  void BeginEvents(const HttpHeaders& headers) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends bytes of the stream. Waits while the client has not read much of what was sent before.
  // False: the client is gone.
  bool SendEvent(std::string_view event) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndEvents() ABSL_LOCKS_EXCLUDED(mutex_);

  bool answered() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has left, or the connection was ended.
  bool gone() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `on_gone` if the client leaves before the answer has ended, at once if it has left. It
  // runs on another thread and must not block. An empty function: no call begins after the return,
  // and none is running.
  void OnGone(std::function<void()> on_gone) ABSL_LOCKS_EXCLUDED(mutex_);

  // For the connection:

  // Appends the bytes that were not taken yet to `bytes`.
  void TakeBytes(std::string* bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // The answer has ended, and all its bytes were taken.
  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection ends with the answer.
  bool closes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection will be closed after the answer, whatever the client wants.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection has ended.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void BeginAnswer(int status, std::string_view content_type, const HttpHeaders& headers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HttpRequest request_;
  const std::function<void()> wake_;

  mutable absl::Mutex mutex_;
  std::string bytes_ ABSL_GUARDED_BY(mutex_);  // that the connection has not taken
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closes_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex on_gone_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::function<void()> on_gone_ ABSL_GUARDED_BY(on_gone_mutex_);
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_EXCHANGE_H_
