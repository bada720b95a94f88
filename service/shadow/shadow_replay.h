// One turn that is read by two models, and what their logits say.
#ifndef LONGSTREAM_SERVICE_SHADOW_SHADOW_REPLAY_H_
#define LONGSTREAM_SERVICE_SHADOW_SHADOW_REPLAY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/compare/row_join.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/shadow/shadow_queue.h"

namespace longstream {

// Why two models cannot be compared on the turn. Absent: they can.
std::optional<ShadowDrop> WhyNotReplayed(const ShadowTurn& turn, const ServedModel& model,
                                         const ServedModel& shadow);

// Each of the two models scores the tokens of the turn in the background (TurnRequest::background),
// and gives the logits for the tokens of the answer. Make it with std::make_shared. One thread
// calls Run once; Wake and Cancel may be called on any thread.
class ShadowReplay : public std::enable_shared_from_this<ShadowReplay> {
 public:
  // REQUIRES: WhyNotReplayed found nothing for the models of the engines.
  ShadowReplay(ShadowTurn turn, std::shared_ptr<Engine> model, std::shared_ptr<Engine> shadow);

  struct Result {
    absl::Status status;     // not OK: the replay is not complete
    std::vector<double> kl;  // of each token of the answer: KL(model || shadow)
    uint64_t agreements = 0;
  };
  // Blocks until the turns have ended and their rows were compared. Rows are only compared while
  // `live` is quiet. Call Wake when it has become quiet.
  Result Run(const LiveWork& live) ABSL_LOCKS_EXCLUDED(mutex_);

  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the replay soon.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

  const ShadowTurn& turn() const { return turn_; }

 private:
  class Sink;
  static constexpr size_t kArms = 2;

  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn of an arm has ended, or was refused.
  void ArmEnded(size_t arm, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The error with which an arm has ended, or OK.
  absl::Status FirstError() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Waits for news. Returns FirstError.
  absl::Status AwaitNews() ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelTurns();
  bool HaveEnded() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Compares the rows that are there. An error: a divergence is not a number.
  absl::Status TakeRows(const LiveWork& live, Result* result);
  // The first error of an arm that this object has not cancelled itself.
  absl::Status Failure() const ABSL_LOCKS_EXCLUDED(mutex_);

  ShadowTurn turn_;
  // Run gives both back: the turns hold this object, and an engine must not be destroyed by its own
  // thread.
  std::array<std::shared_ptr<Engine>, kArms> engines_;
  std::array<std::shared_ptr<Turn>, kArms> turns_;
  std::shared_ptr<RowJoin> join_;

  mutable absl::Mutex mutex_;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = true;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::optional<absl::Status>, kArms> ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SHADOW_SHADOW_REPLAY_H_
