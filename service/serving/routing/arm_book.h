// The known costs of the models that routing aliases choose among.
#ifndef LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_
#define LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_

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
#include "service/engine/engine.h"
#include "service/routing/arm_costs.h"
#include "service/serving/routing/arm_measurement.h"
#include "service/serving/routing/costs_place.h"

namespace longstream {

// Thread-safe. A thread of the book reads and writes the files of costs; engines measure while they
// have no turn. The book may be destroyed before or after the engines.
class ArmBook {
 public:
  struct Options {
    uint32_t threads = 1;                         // of the host, for the key of the files
    absl::Duration most_time = absl::Seconds(5);  // ArmMeasurement::Limits
    uint64_t most_depth = 16384;
    // For tests: in place of PlaceOfCosts.
    std::function<CostsPlace(const ServedModel& model)> place = nullptr;
    // Receives a sentence for each model that was measured or could not be. May be empty. Any
    // thread may call it.
    std::function<void(const std::string& sentence)> log = nullptr;
  };

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
    std::optional<ArmCosts> costs;
  };
  using Job = std::function<void()>;
  // The part of the book that engines keep alive while they measure.
  struct Shared;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Post(Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  // The parts of Measure, on the thread of the book.
  void Begin(const std::weak_ptr<Engine>& engine);
  void End(const std::weak_ptr<Engine>& engine, std::optional<ArmCosts> costs, bool is_from_file);
  void Settle(const Engine& engine, const std::optional<ArmCosts>& costs)
      ABSL_LOCKS_EXCLUDED(mutex_);
  CostsPlace PlaceOf(const ServedModel& model) const;
  void Log(const std::string& sentence) const;

  const Options options_;
  const std::shared_ptr<Shared> shared_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string, std::less<>> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // the last member
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_BOOK_H_
