// Brings the rows of several turns together, place by place, and compares them.
#ifndef LONGSTREAM_SERVICE_COMPARE_ROW_JOIN_H_
#define LONGSTREAM_SERVICE_COMPARE_ROW_JOIN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "backends/api/backend.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/logits/logit_sink.h"

namespace longstream {

// The token of one arm at one place, and its probabilities.
struct ComparedToken {
  size_t arm = 0;
  int32_t token = 0;
  float log_prob = 0.0f;
  uint32_t rank = 0;  // as RankOf
  int32_t best = 0;   // as BestToken
  std::vector<ls_top_token> top;
  std::string text;
  // Since the arm's previous token. Absent: it is the first one, or the arm has paused in between.
  std::optional<absl::Duration> interval;
};

// An arm against the baseline, at one place.
struct ComparedPair {
  size_t arm = 0;
  // KlDivergence(baseline, arm). Absent: the baseline's logits were dropped (baseline_runs_free).
  std::optional<double> kl;
  bool same_best = false;
  double delta_p =
      0;  // of the baseline's token: its probability in the arm less that in the baseline
};

struct ComparedRow {
  uint64_t index = 0;
  std::vector<ComparedToken> tokens;
  std::vector<ComparedPair> pairs;
};

// All rows of an arm against the baseline.
struct PairSummary {
  uint64_t rows = 0;
  uint64_t kl_rows = 0;  // of these, those with a KL
  double sum_kl = 0;
  double max_kl = 0;
  uint64_t same_best = 0;
  // The first place where the tokens differ, or where one of the two has ended and the other goes
  // on. A lost arm does not end in this sense.
  std::optional<uint64_t> first_difference;
};

// Arm 0 is the baseline. The turns of the arms write, each on its engine's thread; one reader at a
// time reads, and computes on its own thread.
//
// A place is compared when all arms that go on have come there. An arm that is ahead waits in a
// buffer. When the buffer is full, the arm's turn pauses (LogitSink::GetRoom); so an arm runs ahead
// of the others only by its buffer. The arm that is furthest behind never pauses for the others:
// all its rows can be compared and dropped. So arms that have all begun cannot block each other.
// The caller ends turns that do not begin while others wait for them (IsWaitedFor).
//
// An arm whose tokens have differed from the baseline's is not compared any more: then the reader
// drops its logits early, and the buffer has room for thousands of tokens.
//
// Make it with std::make_shared. Thread-safe.
class RowJoin : public std::enable_shared_from_this<RowJoin> {
 public:
  struct Options {
    // For each arm: whether its rows are compared with those of the baseline.
    std::vector<bool> comparable;
    // An arm pauses when its buffer holds so many bytes, and goes on at half of them.
    uint64_t buffer_bytes = uint64_t{8} << 20;
    bool measures_intervals = false;
    // The baseline never pauses. While its buffer is full, its rows come without logits, so the
    // pairs of these rows have no KL. Its owner watches how far it is ahead (buffered_bytes).
    bool baseline_runs_free = false;
    // Called once after Next has returned nothing, when a call of it now might return a row, or
    // when an arm has ended. `drained`: called when there is room again for the arm. Both on any
    // thread, without locks held; they must not block.
    std::function<void()> wake = {};
    std::function<void(size_t arm)> drained = {};
  };

  // About what the objects of a row without logits take.
  static constexpr uint64_t kRowBytes = 256;
  // The most bytes that the buffer of one arm may hold. `rows_of_step`: the most rows that one step
  // gives; `rows`: that the turn gives in all.
  static uint64_t MostBytes(uint64_t buffer_bytes, uint32_t vocabulary_size, uint64_t rows_of_step,
                            uint64_t rows);

  explicit RowJoin(Options options);

  // Where the turn of an arm writes. Keeps this object alive.
  std::shared_ptr<LogitSink> SinkOf(size_t arm);

  // The turn of an arm has ended, and writes no more. `lost`: before its text was complete.
  void End(size_t arm, bool lost) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all arms. Frees their rows, or lets the reader do so that looks at one now. Rows that come
  // later are ignored.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the next row, or nothing if it is not there yet or if all arms have ended. For one
  // reader at a time. Computes for some milliseconds if the vocabulary is large.
  std::optional<ComparedRow> Next() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the arm has ended and Next has returned all its rows.
  bool IsDone(size_t arm) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether another arm has paused and can go on only when this arm writes a row or ends.
  bool IsWaitedFor(size_t arm) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Of an arm against the baseline, over the rows that Next has returned.
  PairSummary SummaryOf(size_t arm) const ABSL_LOCKS_EXCLUDED(mutex_);

  // How many rows Next has returned.
  uint64_t rows_taken() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The bytes in the buffer of an arm.
  uint64_t buffered_bytes(size_t arm) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Row {
    ComparedToken told;
    std::vector<float> logits;  // empty: the row has its rank and best token already
    uint64_t bytes = 0;
  };
  struct Arm {
    std::deque<Row> rows;  // those from place next_ on
    size_t reduced = 0;    // so many of the first rows have no logits any more
    uint64_t bytes = 0;
    bool ended = false;
    bool lost = false;
    bool full = false;
    bool paused = false;    // since the last row
    bool is_alone = false;  // not compared with the baseline, from place next_ on
    MonotonicTime last_row = MonotonicTime::InfinitePast();
    PairSummary summary;

    bool is_over() const { return ended && rows.empty(); }
  };
  class Sink final : public LogitSink {
   public:
    Room GetRoom() override { return join->GetRoom(arm); }
    void Push(const LogitRow& row) override { join->Push(arm, row); }
    uint64_t rows_taken() const override { return join->rows_taken(); }

    RowJoin* join = nullptr;
    size_t arm = 0;
  };

  bool RunsFree(size_t arm) const { return arm == 0 && options_.baseline_runs_free; }
  bool IsFull(size_t arm) const ABSL_LOCKS_EXCLUDED(mutex_);
  LogitSink::Room GetRoom(size_t arm) ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(size_t arm, const LogitRow& row) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is a next row, and all arms that go on have it.
  bool CanJoin() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Whether the logits of the arm will not be compared.
  bool IsAlone(size_t arm) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool CanReduce(size_t arm) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Drops the logits of one row that will not be compared. False: there is none.
  bool ReduceOne() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the next row of each arm. Empty: they are not all there.
  std::vector<std::optional<Row>> TakeRows(uint64_t* index) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the rows out of a join that was cleared. The caller frees them without the lock.
  std::vector<std::deque<Row>> TakeCleared() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `bytes` of the arm's buffer are free. True: call options_.drained without locks.
  bool Free(Arm& arm, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Which arms are compared in these rows with the baseline. Also notes the differences.
  std::vector<bool> NotePairs(const std::vector<std::optional<Row>>& rows, uint64_t index)
      ABSL_LOCKS_EXCLUDED(mutex_);
  static void Compare(std::vector<std::optional<Row>>& rows, const std::vector<bool>& is_pair,
                      ComparedRow* compared);
  void Count(const std::vector<ComparedPair>& pairs) ABSL_LOCKS_EXCLUDED(mutex_);
  // From the first place on where an arm's token differs from the baseline's, it is alone.
  void NoteDifferences(const std::vector<std::optional<Row>>& rows, uint64_t index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::vector<Sink> sinks_;

  mutable absl::Mutex mutex_;
  std::vector<Arm> arms_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the index of the next row
  bool reader_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cleared_ ABSL_GUARDED_BY(mutex_) = false;
  bool reduces_ ABSL_GUARDED_BY(mutex_) = false;  // ReduceOne looks at a row without the lock
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_COMPARE_ROW_JOIN_H_
