// The twin of a turn: another model that reads the turn's tokens while they are drawn.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_LIVE_TWIN_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_LIVE_TWIN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "longstream/v1/longstream.pb.h"
#include "service/clock/monotonic_time.h"
#include "service/compare/row_join.h"
#include "service/engine/logits/followed_tokens.h"
#include "service/engine/logits/logit_sink.h"
#include "service/engine/turn/turn_events.h"
#include "service/host_memory/host_memory.h"
#include "service/server/compare/compare_tools.h"
#include "service/server/compare/twin_plan.h"
#include "service/serving/turns/turn_pump.h"

namespace longstream {

// The twin never holds up its turn. While it is behind, the logits of the turn wait in a buffer
// (RowJoin); when the buffer is full, further rows are compared without a KL; when the twin is
// further behind than that, it is lost. If it fails or is refused, it is lost too, and the turn
// goes on.
//
// Its own turn keeps it alive until that has ended. Thread-safe.
class LiveTwin final : public TurnPump::Sink, public std::enable_shared_from_this<LiveTwin> {
 public:
  // `ready` is called, on any thread, when there are rows or when the twin is done. It must not
  // block.
  LiveTwin(TwinPlan plan, CompareTools tools, std::function<void()> ready);

  // Returns the sink for the turn, which must be made with it. nullptr: the twin is lost. The twin
  // takes its memory and starts when the turn has got its own, just before the StartedEvent of the
  // turn. Call it once.
  std::shared_ptr<LogitSink> MakeSink();

  // The call has read the end of the turn, which has drawn so many tokens.
  void TurnEnded(uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // The call has ended, or its turn has failed: nobody wants rows any more.
  void Drop(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there are rows of tokens before token `end`.
  bool HasRows(uint64_t end) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves rows of tokens before token `end` to the message. False: there are none.
  bool TakeRows(uint64_t end, v1::TwinRows* message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether all rows were taken and no further one will come.
  bool IsDone() const ABSL_LOCKS_EXCLUDED(mutex_);

  void ToProto(v1::TwinStarted* message) const ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: IsDone(), and TurnEnded was called.
  void ToProto(v1::TwinSummary* message) const ABSL_LOCKS_EXCLUDED(mutex_);

  // For the twin's own turn.
  bool OnEvent(const TurnEvent& /*event*/) override { return false; }
  void OnEnd(const TurnEnd& end) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class TurnSink;
  struct Row {
    int32_t token = 0;
    float log_prob = 0;
    float twin_log_prob = 0;
    uint32_t rank = 0;
    uint32_t twin_rank = 0;
    int32_t best = 0;
    int32_t twin_best = 0;
    std::optional<double> kl;
    double delta_p = 0;
  };
  struct Totals {
    uint64_t rows = 0;
    uint64_t kl_rows = 0;
    double sum_kl = 0;
    double max_kl = 0;
    uint64_t same_best = 0;
    std::optional<uint64_t> first_difference;
    double sum_log_prob = 0;
    double sum_twin_log_prob = 0;
  };

  // The turn was admitted: starts the twin, or loses it.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED: the memory of the tenant has no room for the most that the buffers hold.
  absl::Status TakeMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<RowJoin> MakeJoin();
  // The turn has ended: the twin is waited for no longer than CompareLimits::twin_limit says. Later
  // calls change nothing.
  void LimitTime() ABSL_LOCKS_EXCLUDED(mutex_);
  // A function that wakes the engine of the twin, if the twin runs.
  std::function<void()> Waker();
  // The twin is lost; the rows that both turns have are still compared. Later calls change nothing.
  void Lose(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // As Lose, and nobody waits for the end of the twin's turn.
  void GiveUp() ABSL_LOCKS_EXCLUDED(mutex_);

  // There may be rows to compare: lets Compute look.
  void Schedule() ABSL_LOCKS_EXCLUDED(mutex_);
  void Post();
  void Compute() ABSL_LOCKS_EXCLUDED(mutex_);
  // Compares the next row. False: there is none now.
  bool CompareOne() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the comparison if no row can come. Frees its memory.
  void EndIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rows go at once, although the turn of the twin may hold its sink for longer.
  void FreeJoin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const ComparedRow& compared) ABSL_LOCKS_EXCLUDED(mutex_);

  TwinPlan plan_;  // its turn and its request are used up by Start
  const std::string model_;
  const CompareTools tools_;
  const std::function<void()> ready_;
  const MonotonicTime begin_ = MonotonicTime::Now();
  std::shared_ptr<FollowedTokens> followed_;  // these two are set by MakeSink
  std::shared_ptr<TurnSink> sink_;
  TurnPump pump_{this};

  mutable absl::Mutex mutex_;
  std::shared_ptr<RowJoin> join_ ABSL_GUARDED_BY(mutex_);  // until the comparison is over
  HostCharge charge_ ABSL_GUARDED_BY(mutex_);
  std::deque<Row> rows_ ABSL_GUARDED_BY(mutex_);  // not taken yet
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;    // rows before these
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  std::optional<TurnEnd> end_ ABSL_GUARDED_BY(mutex_);  // of the twin's turn
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> tokens_ ABSL_GUARDED_BY(mutex_);  // of the turn, when it has ended
  bool has_limit_ ABSL_GUARDED_BY(mutex_) = false;          // LimitTime was called
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;   // no further row comes
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;   // Compute runs or will run
  bool again_ ABSL_GUARDED_BY(mutex_) = false;  // something has happened since it looked
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_LIVE_TWIN_H_
