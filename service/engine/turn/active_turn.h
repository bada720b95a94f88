// A turn that the engine owns, from the queue to its end.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/logits/logit_sink.h"
#include "service/engine/policy/batch_place.h"
#include "service/engine/policy/batch_places.h"
#include "service/engine/policy/pool_bytes.h"
#include "service/engine/policy/queue_room.h"
#include "service/engine/policy/restore_choice.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/policy/turn_demand.h"
#include "service/engine/turn/batch_entry.h"
#include "service/engine/turn/generator.h"
#include "service/engine/turn/step_parts.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_history.h"
#include "service/engine/turn/turn_meter.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"
#include "service/sessions/stored_caches.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Called for every turn that ended with INTERNAL, on the engine thread. Must not block.
// `request_id`: that of the turn's request.
using FailureListener = std::function<void(std::string_view model, std::string_view request_id,
                                           const absl::Status& status)>;

// Used by the engine thread alone. However the turn ends, its session is left in a committed state
// and its stream gets a TurnEnd.
//
// A turn may be part of two steps in flight: for two pieces of its prompt, or because the second
// step reads the token that the first step draws before the host knows it. While a step is in
// flight, the backend uses the turn's sequence. Therefore a turn ends only when its last step is
// done. If that step has read tokens behind the end of the turn, they are taken back.
class ActiveTurn {
 public:
  // `lease`: the lease of the request's session; for a turn with its own session, the lease of a
  // new one. `slot`: the turn's part in the counts of the queue. `metrics`: as for TurnMeter.
  // `on_failure` may be empty.
  ActiveTurn(std::shared_ptr<Turn> turn, TurnLease lease, std::unique_ptr<QueueRoom::Slot> slot,
             ServedModel* model, ModelMetrics* metrics, const FailureListener& on_failure);

  const Turn& turn() const { return *turn_; }
  QueueRoom::Slot& slot() { return *slot_; }
  // The place of the turn's tenant among all tenants.
  size_t tenant() const { return tenant_; }
  // The turn goes on without its reader, which gets `status`.
  void DismissReader(const absl::Status& status) {
    if (request().logits != nullptr) request().logits->Ended(status);
    turn_->stream.Dismiss(status);
  }
  // REQUIRES: !ended(), because the end gives the session's turn back.
  const Session& session() const {
    assert(!ended_);
    return history_.session();
  }
  // Whether the turn has computed everything and waits for its journal. Call TryToFinish then.
  bool concluding() const { return concluding_ && !ended_; }
  // Ends the turn if the journal has made it durable, or could not.
  void TryToFinish();
  // The session, if the turn has ended and has added tokens to it. nullptr: it has not.
  const std::weak_ptr<Session>& kept_session() const { return kept_session_; }
  // Whether the stream has got the TurnEnd. Then no step in flight refers to the turn.
  bool ended() const { return ended_; }

  // ------------------------------------------------------------------------------ admission

  // Bytes that Admit reserves in addition to the bytes that the session holds already.
  PoolBytes BytesWanted() const;
  // Bytes that evicting the turn's own session would free before the turn is admitted.
  uint64_t BytesEvictable() const;
  // Bytes that the session's caches and its turn hold when it is admitted, for the quota of its
  // tenant, and what they count there now.
  uint64_t BytesAdmitted() const {
    return demand_.FillsContext() ? 0 : TurnDemand::Held(info(), demand_.RequestedEnd());
  }
  CacheCharge& cache_charge() { return history_.cache_charge(); }
  // When the caches of the turn's session came back after an eviction.
  MonotonicTime caches_restored_at() const { return history_.restored_at(); }
  // A RESOURCE_EXHAUSTED status that says how many tokens the turn needs room for.
  absl::Status NoRoom() const;

  // Reserves memory for the prompt and for the tokens to generate, and marks the rollback point.
  // RESOURCE_EXHAUSTED: nothing was reserved, and the turn may wait.
  //
  // The caches may be read from the store, which takes a while: see restore_from().
  absl::Status Admit(MonotonicTime now, const RestoreCosts& costs);

  // The snapshot from which an admitted turn has to get its caches before it can go on. nullptr: it
  // has its caches.
  const StoredPlace* restore_from() const {
    return phase_ == Phase::kRestore && !ending() ? &restore_->place : nullptr;
  }
  // The memory into which the snapshot must be read. Call it once, then FinishRestore when it was
  // read.
  SnapshotImport TakeImport() { return std::move(restore_->memory); }
  // How long the turn waits for it (longstream::RestoreLimit).
  absl::Duration RestoreLimit(const ReadingTimes& times, absl::Duration least) const {
    return longstream::RestoreLimit(history_.SavedBy(restore_->place.position), times, least);
  }
  // Bytes that the turn reserves when it has its caches, beside those of the import.
  uint64_t BytesPromised() const;
  // The snapshot was read, or could not be: then the turn computes its caches. If there is not
  // enough memory any more, because the budget was lowered, the turn awaits_room().
  void FinishRestore(SnapshotImport import, const StoredCaches::Filled& filled, MonotonicTime now);
  // Whether the turn must be admitted again before it goes on.
  bool awaits_room() const { return phase_ == Phase::kRoom && !ending(); }

  // Whether the turn has had its memory.
  bool admitted() const { return phase_ != Phase::kWaiting; }
  // Bytes of the cache budget that the session of an admitted turn holds, with the reservation. 0
  // once the turn has ended.
  uint64_t BytesHeld() const;

  // How many turns were behind this turn in the queue and were admitted before it.
  uint32_t times_overtaken() const { return times_overtaken_; }
  void set_times_overtaken(uint32_t times) { times_overtaken_ = times; }

  // ------------------------------------------------------------------------------ a round

  // Takes in the tokens that an Append's caller has sent since the last round. `with_room` calls
  // `attempt`, which reserves memory, after it has made room for `wanted` bytes, and returns its
  // status.
  using WithRoom =
      absl::FunctionRef<absl::Status(uint64_t wanted, absl::FunctionRef<absl::Status()> attempt)>;
  void TakeInput(WithRoom with_room);

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
  // Whether the turn is part of a step in flight, can be part of the next step if it holds a place
  // in the batch, or waits for its caches.
  bool computes() const {
    return parts_.in_flight() || candidate_.has_value() || restore_from() != nullptr;
  }
  // Whether the turn needs a place in the batch, now or when the result of a step in flight is
  // known.
  bool needs_place() const { return awaits_result_ || candidate_.has_value(); }

  // The turn's place in the batch. Only a turn that holds a place takes part in the next step.
  BatchPlace& place() { return place_; }
  const BatchPlace& place() const { return place_; }
  PlaceCandidate AsPlaceCandidate(MonotonicTime now, absl::Duration slice) const {
    PlaceCandidate candidate =
        place_.Candidate(static_cast<int32_t>(request().priority), now, slice);
    candidate.tenant = static_cast<uint32_t>(tenant_);
    return candidate;
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
  // kRestore: the turn's caches are being read from the store. kRoom: they were, and the turn waits
  // for memory again. kReplay: the turn computes caches again that were evicted
  // (TurnHistory::NeedsReplay).
  enum class Phase { kWaiting, kRestore, kRoom, kReplay, kPrefill, kDecode };
  struct Import {
    StoredPlace place;
    SnapshotImport memory;
  };

  const TurnRequest& request() const { return turn_->request; }
  bool generates() const { return request().kind == TurnKind::kGenerate; }
  bool ending() const { return outcome_.has_value(); }
  const ls_model_info& info() const { return model_->backend().info(); }

  // Whether max_tokens and the context allow another token after the token in flight.
  bool GoesOn() const { return !generator_->NextIsLast(history_.size() + 1); }
  // Whether the next step may read the token in flight before the host knows it.
  bool CanLookAhead() const;
  std::optional<StepCandidate> FindCandidate();
  // The next tokens of the turn's own part: the rest of the prompt, or a drawn token.
  void SetOwnPart(StepCandidate& candidate) const;
  // The next tokens of the replay. A replay reads each run of the feed as it was read before.
  void SetReplayPart(StepCandidate& candidate) const;
  bool replays() const { return phase_ == Phase::kReplay; }
  // Whether the reader, or the turns with which this one is compared, have to come on first.
  bool HasToPause();
  // Whether the token that the turn would draw next is missing: the turn that it follows has not
  // drawn it yet.
  bool LacksFollowed() const;

  absl::Status TakeMemory(const RestoreCosts& costs);
  // Takes the memory for a snapshot. The session keeps the caches that it has until the snapshot
  // was read, unless only their memory makes room for it.
  absl::Status BeginRestore(const StoredPlace& place);
  bool FitsWithoutOwnCaches(uint64_t position) const;
  // Reserves the memory for a turn that reads from its present caches, or from new ones.
  absl::Status TakeOwnMemory();
  // The turn has its memory: it reads, or waits for the snapshot.
  void Go();
  // The turn has its caches, and begins to read.
  void BeginReading(uint64_t restored);
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
  // Reports the progress of a replay. At its end, marks the rollback point.
  void AbsorbReplay(uint64_t position, MonotonicTime now);
  // `position`: the end of the part of the text that the step has read.
  void AbsorbScore(const ls_result& result, uint64_t position);
  void AbsorbPrefill(uint64_t position, MonotonicTime now);
  // Called when the last piece of the prompt was read. Ends a turn that does not generate.
  void FinishPrefill();
  void AbsorbToken(const ls_result& result, MonotonicTime now);
  // Gives the row of the token to the sink. False: there is none, and the turn is ending.
  bool PassRow(const ls_result& result, const std::optional<TokenLogProb>& log_prob,
               std::string_view text);

  // The journal could not commit the turn: the session returns to its state before the turn.
  void FailToCommit(const absl::Status& status);
  // Decides how the turn ends. Conclude is called when no step of the turn is in flight any more.
  void End(TurnEnd end);
  void Conclude();
  // Puts the session into the state that `status` and the request ask for. True: the history keeps
  // the prompt of the turn.
  bool Restore(const absl::Status& status);
  // Takes back the tokens whose text no delta has. If a delta ends within one of them, tokens of
  // the text before take its place.
  void DropStopText();
  // Tells the journal how the turn has ended.
  void LogEnd();
  void TellAnswer() const;
  // The incomplete character of a session that keeps the prompt. Call it after Restore.
  TextTail TailAfter(const TurnEnd& end) const;
  // The bytes of the session when it has the turn's conversation, if they are known. Call it after
  // Restore.
  std::optional<SessionBytes> BytesAfter() const;

  const std::shared_ptr<Turn> turn_;
  const std::unique_ptr<QueueRoom::Slot> slot_;
  ServedModel* const model_;
  const FailureListener& on_failure_;
  TurnHistory history_;
  const size_t tenant_;
  const TurnDemand demand_;
  TurnMeter meter_;
  StepParts parts_;
  BatchPlace place_;
  std::optional<Generator> generator_;
  DrawPart draw_;  // of the entry that was made last

  Phase phase_ = Phase::kWaiting;
  std::optional<Import> restore_;
  // The snapshot that was found for caches that stand at stored_for_.
  std::optional<StoredPlace> stored_;
  std::optional<uint64_t> stored_for_;
  bool gave_up_stored_ = false;     // a snapshot could not be read
  uint64_t restored_ = 0;           // the position of the snapshot that was read
  std::optional<TurnEnd> outcome_;  // the turn is ending, or has ended
  bool concluding_ = false;
  bool keeps_prompt_ = false;  // when it is concluding: the history keeps the prompt of the turn
  TextTail new_tail_;          // then, if the history keeps the prompt
  bool ended_ = false;
  std::weak_ptr<Session> kept_session_;
  bool overread_ = false;  // a step was in flight when the end was decided
  bool dropped_ = false;   // DropStopText has taken tokens back
  bool input_open_;
  uint32_t times_overtaken_ = 0;
  uint64_t reserved_end_ = 0;   // memory is reserved up to this position; 0: not admitted
  uint64_t prefill_total_ = 0;  // tokens to read before the first draw
  uint64_t scored_ = 0;         // kScore: tokens reported so far

  std::optional<StepCandidate> candidate_;
  bool awaits_result_ = false;
  bool lacks_followed_ = false;  // LacksFollowed, when the turn was looked at last
  LogitSink::Room room_ = LogitSink::Room::kFree;  // of the sink, when the turn was looked at last
  bool is_settled_ = false;  // candidate_ stays as it is until the turn takes part in a step
  // client_progress_ changes when the client reads or sends. client_seen_ is the time of its last
  // change.
  uint64_t client_progress_ = 0;
  MonotonicTime client_seen_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
