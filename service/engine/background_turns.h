// The turns of an engine that run only while no client's turn does.
#ifndef LONGSTREAM_SERVICE_ENGINE_BACKGROUND_TURNS_H_
#define LONGSTREAM_SERVICE_ENGINE_BACKGROUND_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/costs/chunk_pace.h"
#include "service/engine/policy/fair_share.h"
#include "service/engine/policy/queue_room.h"
#include "service/engine/policy/restore_choice.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/shared_prefill_speed.h"
#include "service/engine/step_pipeline.h"
#include "service/engine/turn/active_turn.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// The engine calls Step when it has nothing else to do, and EndHolders when other work needs
// memory. A turn takes its memory in its first step, or ends; it never waits for memory.
//
// Nothing is in flight when a function has returned, so a turn that is ended has ended at once.
// The turns have a step pipeline of their own: what it learns of the costs of steps, and the work
// that it counts, is not that of clients' turns. Used by the engine thread, but for TryEnter.
class BackgroundTurns {
 public:
  // A further turn is refused.
  static constexpr size_t kMostTurns = 8;

  // `step_limit`: as for ChunkPace. `model` and `on_failure` outlive the object.
  BackgroundTurns(ServedModel* model, const StepLimits& limits, absl::Duration step_limit,
                  const FailureListener& on_failure);

  // The part of another turn in their number. nullptr: there are kMostTurns. Any thread may call
  // it.
  std::unique_ptr<QueueRoom::Slot> TryEnter() { return room_.TryEnter(/*tenant=*/0); }
  void Add(std::shared_ptr<Turn> turn, TurnLease lease, std::unique_ptr<QueueRoom::Slot> slot);

  bool empty() const { return turns_.empty(); }
  bool hold_memory() const;

  // Ends turns that were cancelled or whose deadline has passed.
  void EndDue(MonotonicTime now);
  // Ends all turns.
  void EndAll(const absl::Status& why);
  // Ends the turns that hold memory with RESOURCE_EXHAUSTED.
  void EndHolders();

  // Runs one step. `free`: bytes of the budget that are free now. False: there was nothing to do:
  // the turns wait for the readers of their logits.
  bool Step(absl::FunctionRef<uint64_t()> free, const RestoreCosts& costs);

  // As StepPipeline::lost.
  const absl::Status& lost() const { return pipeline_.lost(); }

 private:
  // Gives memory to a turn that has none, or ends it.
  void Admit(ActiveTurn& turn, uint64_t free, const RestoreCosts& costs);
  void RemoveEnded();

  ServedModel* const model_;
  const FailureListener& on_failure_;
  QueueRoom room_;             // outlives the turns
  StepPipeline::Turns turns_;  // in the order of their arrival
  SharedPrefillSpeed speed_;   // of no use to others: it knows pieces of some milliseconds only
  WorkShares shares_;          // there is one tenant here
  StepPipeline pipeline_;
  ChunkPace pace_;  // of steps that give no logits
  ChunkPace pace_with_logits_;
  uint64_t place_changes_ = 0;  // PlaceCandidate::since of the last change
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_BACKGROUND_TURNS_H_
