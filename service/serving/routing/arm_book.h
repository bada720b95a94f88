// The known costs of the models that routing aliases choose among.
#ifndef LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_
#define LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/routing/arm_costs.h"
#include "service/serving/routing/arm_measurement.h"
#include "service/serving/routing/costs_place.h"

namespace longstream {

// Thread-safe. A thread of the book reads and writes the files of costs; engines measure while
// there is no live work, one engine at a time, because they share the processors. A measurement
// that gave no costs is repeated while its model is wanted. So is one that got less far than
// ArmMeasurement::kKeptDepth, a few times; its costs count, and are not written. The book may be
// destroyed before or after the engines.
class ArmBook {
 public:
  struct Options {
    uint32_t threads = 1;                         // of the host, for the key of the files
    absl::Duration most_time = absl::Seconds(5);  // ArmMeasurement::Limits
    uint64_t most_depth = 16384;
    // Until a measurement is repeated. Each repetition doubles it, up to kMostRetryDelay.
    absl::Duration retry_delay = absl::Seconds(30);
    // For tests: in place of PlaceOfCosts.
    std::function<CostsPlace(const ServedModel& model)> place = nullptr;
    // Receives a sentence for each model that was measured or could not be. May be empty. Any
    // thread may call it.
    std::function<void(const std::string& sentence)> log = nullptr;
  };

  static constexpr absl::Duration kMostRetryDelay = absl::Minutes(10);
  // Repetitions for a model with costs.
  static constexpr int kMostRepetitions = 5;

  ArmBook() : ArmBook(Options()) {}
  explicit ArmBook(Options options);
  ~ArmBook();
  ArmBook(const ArmBook&) = delete;
  ArmBook& operator=(const ArmBook&) = delete;

  // The models that are arms of routing aliases.
  void SetWanted(const std::set<std::string>& models) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsWanted(std::string_view model) const ABSL_LOCKS_EXCLUDED(mutex_);

  // nullopt: the model has not been measured.
  std::optional<ArmCosts> Find(std::string_view model) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(const std::string& model, const ArmCosts& costs) ABSL_LOCKS_EXCLUDED(mutex_);
  // The model is not served any more, or can compute nothing.
  void Forget(std::string_view model) ABSL_LOCKS_EXCLUDED(mutex_);

  // Finds out the costs of a model, unless it is known: from its file, or by a measurement. Returns
  // at once.
  void Measure(const std::shared_ptr<Engine>& engine) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a model that is wanted, and waits until its costs are known or cannot be measured,
  // but no longer than a few times Options::most_time. For models that are being loaded: their
  // engine has no turn.
  void MeasureAndWait(const std::shared_ptr<Engine>& engine) ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on no call waits, and nothing more is read, measured or written.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A model that is measured or was. By its name; a later version takes the place of an earlier
  // one.
  struct Entry {
    const Engine* engine = nullptr;  // only compared
    bool is_pending = false;
    bool is_known = false;  // `costs` are those of `engine`, and need no repetition
    std::optional<ArmCosts> costs;
    bool is_repeating = false;  // a repetition has its time
    int repetitions = 0;
    std::shared_ptr<std::atomic<bool>> is_loading;  // ArmMeasurement::Limits
  };
  using Job = std::function<void()>;
  // The part of the book that engines keep alive while they measure.
  struct Shared;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Post(Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  void PostAt(MonotonicTime at, Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next job. nullptr: the book stops.
  Job Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // The parts of Measure, on the thread of the book.
  void Begin(const std::weak_ptr<Engine>& engine);
  // Gives the slot for measurements to the engine that has waited for the longest time.
  void StartNext();
  // False: the engine does not need a measurement any more.
  bool Start(const std::weak_ptr<Engine>& engine);
  // The engine that has the slot has measured.
  void EndMeasurement(const std::weak_ptr<Engine>& engine, const std::optional<ArmCosts>& costs);
  void End(const std::weak_ptr<Engine>& engine, std::optional<ArmCosts> costs, bool is_from_file);
  // Returns the time until the measurement is repeated. Infinite: it is not.
  absl::Duration Settle(const Engine& engine, const std::optional<ArmCosts>& costs, bool is_known)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The time for a repetition has come.
  void Repeat(const std::weak_ptr<Engine>& engine);
  CostsPlace PlaceOf(const ServedModel& model) const;
  void Log(const std::string& sentence) const;

  const Options options_;
  const std::shared_ptr<Shared> shared_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string, std::less<>> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::multimap<MonotonicTime, Job> later_ ABSL_GUARDED_BY(mutex_);  // by the time to begin
  // Only the thread of the book uses these two.
  bool is_measuring_ = false;
  std::deque<std::weak_ptr<Engine>> waiting_;  // for the slot
  std::thread thread_;                         // the last member
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_
