// A turn that the engine owns, from the queue to its end.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/policy/batch_places.h"
#include "service/engine/policy/pool_bytes.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/policy/turn_demand.h"
#include "service/engine/turn/batch_place.h"
#include "service/engine/turn/generator.h"
#include "service/engine/turn/step_parts.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_history.h"
#include "service/engine/turn/turn_meter.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Called for every turn that ended with INTERNAL, on the engine thread. Must not block.
using FailureListener = std::function<void(std::string_view model, const absl::Status& status)>;

// Used by the engine thread alone. However the turn ends, its session is left in a committed state
// and its stream gets a TurnEnd.
//
// A turn may be part of two steps in flight: for two pieces of its prompt, or because the second
// step reads the token that the first step draws before the host knows it. While a step is in
// flight, the backend uses the turn's sequence. Therefore a turn ends only when its last step is
// done. If that step has read tokens behind the end of the turn, they are taken back.
class ActiveTurn {
 public:
  // `lease`: the lease of the request's session; for kScore, the lease of a new session.
  // `on_failure` may be empty.
  ActiveTurn(std::shared_ptr<Turn> turn, TurnLease lease, ServedModel* model, ModelMetrics* metrics,
             const FailureListener& on_failure);

  const Turn& turn() const { return *turn_; }
  // REQUIRES: !ended(), because the end gives the session's turn back.
  const Session& session() const {
    assert(!ended_);
    return history_.session();
  }
  // Whether the stream has got the TurnEnd. Then no step in flight refers to the turn.
  bool ended() const { return ended_; }

  // ------------------------------------------------------------------------------ admission

  // Bytes that Admit reserves in addition to the bytes that the session holds already.
  PoolBytes BytesWanted() const;
  // A RESOURCE_EXHAUSTED status that says how many tokens the turn needs room for.
  absl::Status NoRoom() const;

  // Reserves memory for the prompt and for the tokens to generate, and marks the rollback point.
  // RESOURCE_EXHAUSTED: nothing was reserved, and the turn may wait.
  absl::Status Admit(MonotonicTime now);

  // Bytes of the cache budget that the end of an admitted turn gives back: BytesUnused if the turn
  // ends now, MostBytesBack if it is rolled back. 0 once the turn has ended.
  uint64_t BytesUnused() const;
  uint64_t MostBytesBack() const;

  // How many turns were behind this turn in the queue and were admitted before it.
  uint32_t times_overtaken() const { return times_overtaken_; }
  void set_times_overtaken(uint32_t times) { times_overtaken_ = times; }

  // ------------------------------------------------------------------------------ a round

  // Takes in the tokens that an Append's caller has sent since the last round.
  void TakeInput();

  // Whether TakeInput and Look would change nothing: the turn waits for a place, and no step in
  // flight and no input changes its part in the next step. The engine skips such turns, because
  // there may be many.
  bool is_parked() const { return place_.awaited() && is_settled_; }

  // Decides the turn's part in the next step. The four functions below report the result.
  void Look();
  // The turn's part in the next step. Absent while the turn waits for its reader, for enough input
  // to reach the next place where a prompt may be cut, or for the result of a step in flight.
  const std::optional<StepCandidate>& candidate() const { return candidate_; }
  // Whether the turn would be a candidate if the result of a step in flight were known.
  bool awaits_result() const { return awaits_result_; }
  // Whether the turn is part of a step in flight, or can be part of the next step if it holds a
  // place in the batch.
  bool computes() const { return parts_.in_flight() || candidate_.has_value(); }
  // Whether the turn needs a place in the batch, now or when the result of a step in flight is
  // known.
  bool needs_place() const { return awaits_result_ || candidate_.has_value(); }

  // The turn's place in the batch. Only a turn that holds a place takes part in the next step.
  BatchPlace& place() { return place_; }
  const BatchPlace& place() const { return place_; }
  PlaceCandidate AsPlaceCandidate(MonotonicTime now, absl::Duration slice) const {
    return place_.Candidate(static_cast<int32_t>(request().priority), now, slice);
  }
  // The turn was admitted, and it holds a place or needs none now. Ends the turn's time in the
  // queue. Later calls change nothing.
  void Begin(MonotonicTime now) { meter_.Begin(now); }

  // How long the turn has waited for its client while the client neither read nor sent.
  absl::Duration ClientSilence(MonotonicTime now);

  // ------------------------------------------------------------------------------ a step

  // The turn's entry in the next step, with `num_tokens` tokens. Valid until the turn changes.
  ls_batch_entry Entry(uint32_t num_tokens);
  // The step with the entry that Entry returned last is now in flight.
  void Submitted(uint64_t step_number, MonotonicTime now) {
    parts_.Submit(step_number);
    place_.Step(now);
  }
  // A step reads other prompts, although the turn was a candidate too.
  void PassedOver() { parts_.PassOver(); }
  // The step with that entry was refused as a whole, because of one of its entries. The turn's next
  // step must have no other turn.
  void Refused() { parts_.Refuse(); }
  bool goes_alone() const { return parts_.goes_alone(); }
  // Takes in the turn's result of its oldest step in flight. May end the turn.
  void Absorb(const ls_result& result, MonotonicTime now);
  // The turn's oldest step in flight failed as a whole. The turn ends with `status`.
  void AbsorbFailure(absl::Status status);

  // Ends the turn with an error, when its steps in flight are done. Later calls do not change the
  // first error. The session is rolled back, or keeps tokens if the request asks for `kKeep`. kKeep
  // applies to a caller's cancel, disconnect or deadline and to a shutdown, not to a failure of the
  // backend.
  void Abort(absl::Status status);

 private:
  enum class Phase { kWaiting, kPrefill, kDecode };

  const TurnRequest& request() const { return turn_->request; }
  bool generates() const { return request().kind == TurnKind::kGenerate; }
  bool ending() const { return outcome_.has_value(); }
  const ls_model_info& info() const { return model_->backend().info(); }

  // Whether max_tokens and the context allow another token after the token in flight.
  bool GoesOn() const { return !generator_->NextIsLast(history_.size() + 1); }
  // Whether the next step may read the token in flight before the host knows it.
  bool CanLookAhead() const;
  std::optional<StepCandidate> FindCandidate();

  absl::Status TakeMemory();
  absl::Status ReserveForRequest();
  // Reserves memory for `tokens` more tokens. RESOURCE_EXHAUSTED: the earlier reservation stays.
  absl::Status Reserve(uint64_t tokens);
  void EndAtContext();
  // Whether the tokens of the turn directly follow the incomplete character of the session (if it
  // has one), so that they may complete it.
  bool ContinuesText() const;
  // Reports the beginning of the turn. If the turn generates and cannot complete the incomplete
  // character of the session, delivers it as U+FFFD.
  void PushStarted();
  void AddPrompt(std::span<const int32_t> tokens);

  // Removes the oldest part from the parts in flight and returns it. Returns nothing if the turn is
  // ending and does not need the part.
  std::optional<StepPart> Land();
  void AbsorbScore(const ls_result& result);
  void AbsorbPrefill(uint64_t position, MonotonicTime now);
  // Called when the last piece of the prompt was read. Ends a turn that does not generate.
  void FinishPrefill();
  void AbsorbToken(const ls_result& result, MonotonicTime now);

  // Decides how the turn ends. Conclude is called when no step of the turn is in flight any more.
  void End(TurnEnd end);
  void Conclude();
  // Puts the session into the state that `status` and the request ask for. True: the history keeps
  // the prompt of the turn.
  bool Restore(const absl::Status& status);
  // The incomplete character of a session that keeps the prompt. Call it after Restore.
  TextTail TailAfter(const TurnEnd& end) const;

  const std::shared_ptr<Turn> turn_;
  ServedModel* const model_;
  const FailureListener& on_failure_;
  TurnHistory history_;
  const TurnDemand demand_;
  TurnMeter meter_;
  StepParts parts_;
  BatchPlace place_;
  std::optional<Generator> generator_;

  Phase phase_ = Phase::kWaiting;
  std::optional<TurnEnd> outcome_;  // the turn is ending, or has ended
  bool ended_ = false;
  bool overread_ = false;  // a step was in flight when the end was decided
  bool input_open_;
  uint32_t times_overtaken_ = 0;
  uint64_t reserved_end_ = 0;   // memory is reserved up to this position; 0: not admitted
  uint64_t prefill_total_ = 0;  // tokens to read before the first draw
  uint64_t scored_ = 0;         // kScore: tokens reported so far

  std::optional<StepCandidate> candidate_;
  bool awaits_result_ = false;
  bool is_settled_ = false;  // candidate_ stays as it is until the turn takes part in a step
  // client_progress_ changes when the client reads or sends. client_seen_ is the time of its last
  // change.
  uint64_t client_progress_ = 0;
  MonotonicTime client_seen_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
