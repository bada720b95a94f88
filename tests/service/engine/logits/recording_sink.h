// A LogitSink that keeps all rows, for tests.
#ifndef LONGSTREAM_TESTS_SERVICE_ENGINE_LOGITS_RECORDING_SINK_H_
#define LONGSTREAM_TESTS_SERVICE_ENGINE_LOGITS_RECORDING_SINK_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/logits/logit_sink.h"

namespace longstream {

struct RecordedRow {
  int32_t token = 0;
  float log_prob = 0;
  std::vector<ls_top_token> top;
  std::string text;
  std::vector<float> logits;
};

class RecordingSink final : public LogitSink {
 public:
  Room GetRoom() override {
    absl::MutexLock lock(&mutex_);
    ++looks_;
    counts_.insert(rows_.size());
    return rows_.size() < most_ ? Room::kFree : room_;
  }
  void Push(const LogitRow& row) override {
    absl::MutexLock lock(&mutex_);
    rows_.push_back({row.token,
                     row.log_prob,
                     {row.top.begin(), row.top.end()},
                     std::string(row.text),
                     {row.logits.begin(), row.logits.end()}});
  }

  // The reader of a steady sink has taken a row more at each look.
  uint64_t rows_taken() const override {
    absl::MutexLock lock(&mutex_);
    return is_steady_ ? taken_++ : 0;
  }
  bool WantsRows() const override {
    absl::MutexLock lock(&mutex_);
    return rows_.size() < wanted_;
  }

  void SetSteady() {
    absl::MutexLock lock(&mutex_);
    is_steady_ = true;
  }
  uint64_t taken() const {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }
  // There is no room, for this reason, when the sink has so many rows.
  void Limit(size_t most, Room room) {
    absl::MutexLock lock(&mutex_);
    most_ = most;
    room_ = room;
  }
  // The sink wants no further rows when it has so many.
  void WantOnly(size_t rows) {
    absl::MutexLock lock(&mutex_);
    wanted_ = rows;
  }
  std::vector<RecordedRow> rows() const {
    absl::MutexLock lock(&mutex_);
    return rows_;
  }
  // How many rows the sink had when the engine asked for room.
  std::set<size_t> counts_at_looks() const {
    absl::MutexLock lock(&mutex_);
    return counts_;
  }
  // Waits until the sink has so many rows, and the engine has asked for room once more.
  void AwaitRows(size_t count) const {
    absl::MutexLock lock(&mutex_);
    const auto has_rows = [&]()
                              ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return rows_.size() >= count; };
    mutex_.Await(absl::Condition(&has_rows));
    const int looks = looks_;
    const auto has_looked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return looks_ > looks; };
    mutex_.Await(absl::Condition(&has_looked));
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<RecordedRow> rows_ ABSL_GUARDED_BY(mutex_);
  size_t most_ ABSL_GUARDED_BY(mutex_) = 1 << 30;
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 1 << 30;
  Room room_ ABSL_GUARDED_BY(mutex_) = Room::kFree;
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<size_t> counts_ ABSL_GUARDED_BY(mutex_);
  bool is_steady_ ABSL_GUARDED_BY(mutex_) = false;
  mutable uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_LOGITS_RECORDING_SINK_H_
