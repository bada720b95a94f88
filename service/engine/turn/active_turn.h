// A turn in the hands of the engine: from the queue, through its prompt and its tokens, to its end.
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
#include "service/engine/policy/pool_bytes.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/policy/turn_demand.h"
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

// Used by the engine thread alone. However the turn ends, its session is left at a committed state
// and its stream has an end.
//
// A turn may be part of two steps in flight: pieces of its prompt follow each other, and a step may
// read the token that the step before it draws, before the host has seen it. Meanwhile its sequence
// is the backend's. So a turn ends only when its last step is done, and surplus tokens that this
// step has read are taken back.
class ActiveTurn {
 public:
  // `lease`: of the request's session; of a session of its own for kScore. `on_failure` may be
  // empty.
  ActiveTurn(std::shared_ptr<Turn> turn, TurnLease lease, ServedModel* model, ModelMetrics* metrics,
             const FailureListener& on_failure);

  const Turn& turn() const { return *turn_; }
  // REQUIRES: !ended(), because the end gives the session's turn back.
  const Session& session() const {
    assert(!ended_);
    return history_.session();
  }
  // Its stream has the end; nothing in flight refers to it.
  bool ended() const { return ended_; }

  // ------------------------------------------------------------------------------ admission

  // Bytes that Admit reserves besides the session's own.
  PoolBytes BytesWanted() const;
  // A RESOURCE_EXHAUSTED that names the tokens the turn asks for.
  absl::Status NoRoom() const;

  // Takes memory for the prompt and the tokens to come, and marks the rollback point.
  // RESOURCE_EXHAUSTED: nothing was taken, the turn may wait.
  absl::Status Admit(MonotonicTime now);

  // Bytes of the cache budget that the end of an admitted turn gives back: if it ends as it stands,
  // and if it is rolled back. 0 once it has ended.
  uint64_t BytesUnused() const;
  uint64_t MostBytesBack() const;

  // Turns behind this one in the queue that were admitted before it.
  uint32_t times_overtaken() const { return times_overtaken_; }
  void set_times_overtaken(uint32_t times) { times_overtaken_ = times; }

  // ------------------------------------------------------------------------------ a round

  // Takes in the tokens that an Append's caller has sent since the last round.
  void TakeInput();

  // Looks for the turn's part in the next step. The three functions below answer by the last look.
  void Look();
  // Its place in the next step; nothing while it waits for its reader, for input that reaches the
  // next place where a prompt may be cut, or for the result of a step in flight.
  const std::optional<StepCandidate>& candidate() const { return candidate_; }
  // Only the result of a step in flight keeps it from being a candidate.
  bool awaits_result() const { return awaits_result_; }
  // It is part of a step in flight, or could be of the next.
  bool computes() const { return parts_.in_flight() || candidate_.has_value(); }

  // How long the turn has waited for its client, which neither read nor sent.
  absl::Duration ClientSilence(MonotonicTime now);

  // ------------------------------------------------------------------------------ a step

  // Its part of a step of `num_tokens`. Valid until the turn changes.
  ls_batch_entry Entry(uint32_t num_tokens);
  // The step with the last entry is in flight.
  void Submitted(uint64_t step_number) { parts_.Submit(step_number); }
  // That step was refused as a whole, because of one entry: the turn's next step must have no other
  // turn.
  void Refused() { parts_.Refuse(); }
  bool goes_alone() const { return parts_.goes_alone(); }
  // Takes in the outcome of the oldest step in flight; may end the turn.
  void Absorb(const ls_result& result, MonotonicTime now);
  // That step failed as a whole, and the turn ends with `status`.
  void AbsorbFailure(absl::Status status);

  // Ends the turn with an error, at once or when it is not in flight any more. The first reason
  // stands. The session goes back as the request asks: `kKeep` applies to a caller's cancel,
  // disconnect or deadline and to a shutdown, not to a failure of the backend.
  void Abort(absl::Status status);

 private:
  enum class Phase { kWaiting, kPrefill, kDecode };

  const TurnRequest& request() const { return turn_->request; }
  bool generates() const { return request().kind == TurnKind::kGenerate; }
  bool ending() const { return outcome_.has_value(); }
  const ls_model_info& info() const { return model_->backend().info(); }

  // As far as is known, another token will be drawn after the one in flight.
  bool GoesOn() const { return !generator_->NextIsLast(history_.size() + 1); }
  // The token in flight can be read before it is known.
  bool CanLookAhead() const;
  std::optional<StepCandidate> FindCandidate();

  absl::Status TakeMemory();
  absl::Status ReserveForRequest();
  // Reserves room for so many more tokens. RESOURCE_EXHAUSTED: the earlier reservation stands.
  absl::Status Reserve(uint64_t tokens);
  void EndAtContext();
  void AddPrompt(std::span<const int32_t> tokens);

  // Takes the oldest part out of flight. Nothing: the turn is ending and does not need the part.
  std::optional<StepPart> Land();
  void AbsorbScore(const ls_result& result);
  void AbsorbPrefill(uint64_t position, MonotonicTime now);
  // The last piece of the prompt was read; a turn that does not generate ends.
  void FinishPrefill();
  void AbsorbToken(const ls_result& result, MonotonicTime now);

  // Decides how the turn ends. Conclude follows at once, or when the turn is not in flight any
  // more.
  void End(TurnEnd end);
  void Conclude();
  // Puts the session into the state that the end asks for. True: the history keeps the turn's
  // prompt.
  bool Restore(const absl::Status& status);

  const std::shared_ptr<Turn> turn_;
  ServedModel* const model_;
  const FailureListener& on_failure_;
  TurnHistory history_;
  const TurnDemand demand_;
  TurnMeter meter_;
  StepParts parts_;
  std::optional<Generator> generator_;

  Phase phase_ = Phase::kWaiting;
  std::optional<TurnEnd> outcome_;  // the turn is ending, or has ended
  bool ended_ = false;
  bool overread_ = false;  // a step was in flight when the end was decided
  bool input_open_;
  uint32_t times_overtaken_ = 0;
  uint64_t reserved_end_ = 0;   // position up to which there is room; 0: not admitted
  uint64_t prefill_total_ = 0;  // tokens to read before the first draw
  uint64_t scored_ = 0;         // kScore: tokens reported

  std::optional<StepCandidate> candidate_;
  bool awaits_result_ = false;
  // client_progress_ changes when the client reads or sends; client_seen_: when it last changed.
  uint64_t client_progress_ = 0;
  MonotonicTime client_seen_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
