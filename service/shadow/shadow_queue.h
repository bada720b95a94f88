// Turns that have ended and wait to be replayed on another model.
#ifndef LONGSTREAM_SERVICE_SHADOW_SHADOW_QUEUE_H_
#define LONGSTREAM_SERVICE_SHADOW_SHADOW_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/turn/turn_journal.h"
#include "service/metrics/shadow_metrics.h"

namespace longstream {

struct ShadowTurn {
  std::string model;            // that has generated the answer
  std::string shadow;           // on which the turn is replayed
  std::vector<int32_t> tokens;  // of the whole session
  uint64_t answer_begin = 0;    // the index of the answer's first token

  uint64_t bytes() const { return tokens.size() * sizeof(int32_t); }
};

// Why a turn is not replayed. The names are labels in Prometheus.
enum class ShadowDrop {
  kFull,       // "full": the queue was full
  kModel,      // "model": one of the models is not served, or is being unloaded
  kTokenizer,  // "tokenizer": the models have other tokenizers, or other numbers of logits
  kTooLong,    // "too_long": for the context of the shadow, or for the whole queue
  kMemory,     // "memory": there was no free memory, or a client's turn needed it
  kFailed,     // "failed": a backend failed, or cannot score
  kStopped     // "stopped": the server was shutting down
};
std::string_view NameOf(ShadowDrop reason);

// First in, first out. The engines add turns, and one thread takes them. Make it with
// std::make_shared. Thread-safe.
class ShadowQueue : public std::enable_shared_from_this<ShadowQueue> {
 public:
  // A turn for which there is no room is dropped.
  struct Limits {
    size_t turns = 64;
    uint64_t bytes = uint64_t{16} << 20;
  };

  // `metrics` outlives the queue and its taps.
  ShadowQueue(const Limits& limits, ShadowMetrics* metrics);

  // A tap of turns that will be replayed on the model `shadow`. Keeps the queue alive.
  std::shared_ptr<AnswerTap> TapFor(std::string shadow);

  // Waits for the next turn. Absent: the queue is closed.
  std::optional<ShadowTurn> Pop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops all turns, and all that come later.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts a turn that is not replayed.
  void CountDrop(const ShadowTurn& turn, ShadowDrop reason);

 private:
  class Tap;

  // Adds a copy of the turn, or drops it.
  void Push(const AnsweredTurn& turn, const std::string& shadow) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<ShadowDrop> Refusal(uint64_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  ShadowMetrics* const metrics_;
  absl::Mutex mutex_;
  std::deque<ShadowTurn> turns_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SHADOW_SHADOW_QUEUE_H_
