// The tokens of one turn, for a turn of another model that follows it.
#ifndef LONGSTREAM_SERVICE_ENGINE_LOGITS_FOLLOWED_TOKENS_H_
#define LONGSTREAM_SERVICE_ENGINE_LOGITS_FOLLOWED_TOKENS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// One turn draws the tokens and writes them here. Another turn reads them as its own answer, one
// after the other, and pauses while the next one is missing. Thread-safe; no function blocks.
class FollowedTokens {
 public:
  // `wake` is called once after Has has returned false, when there is another token or when no
  // further one will come. It is called without locks held, and must not block. It should wake the
  // engine of the turn that reads.
  explicit FollowedTokens(std::function<void()> wake) : wake_(std::move(wake)) {}

  // For the turn that draws. After Close, no token comes any more.
  void Push(int32_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the turn that reads: whether token `index` is there.
  bool Has(uint64_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: Has(index) was true.
  int32_t At(uint64_t index) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there are `count` tokens and no further one will come.
  bool EndAt(uint64_t count) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Whether the caller must call wake_.
  bool TakeWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  std::vector<int32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool reader_waits_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_LOGITS_FOLLOWED_TOKENS_H_
