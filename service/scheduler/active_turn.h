// A turn in the hands of the engine: from the queue, through its prompt and its tokens, to its end.
#ifndef LONGSTREAM_SERVICE_SCHEDULER_ACTIVE_TURN_H_
#define LONGSTREAM_SERVICE_SCHEDULER_ACTIVE_TURN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/metrics/model_metrics.h"
#include "service/registry/served_model.h"
#include "service/scheduler/generator.h"
#include "service/scheduler/step_plan.h"
#include "service/scheduler/turn.h"

namespace longstream {

// Told of every turn that ended with INTERNAL. Runs on the engine thread and must not block.
using FailureListener = std::function<void(std::string_view model, const absl::Status& status)>;

// Used by the engine thread alone. However it ends, its session is left at a committed state and
// its stream has an end.
class ActiveTurn {
 public:
  // The caller has begun the session's turn (kScore: there is none). `on_failure` may be empty.
  ActiveTurn(std::shared_ptr<Turn> turn, ServedModel* model, ModelMetrics* metrics,
             const FailureListener& on_failure);

  const Turn& turn() const { return *turn_; }
  const Session& session() const { return *session_; }
  bool ended() const { return ended_; }

  // Looks at the request in the light of the session, which nobody else changes from here on: at
  // most once, before Admit. CANCELLED: the session was closed. INVALID_ARGUMENT: there is nothing
  // to generate from, or more than the context holds.
  absl::Status Prepare();

  // Takes memory for the prompt and the tokens to come, and marks the state to go back to.
  // RESOURCE_EXHAUSTED: nothing was taken, the turn may wait.
  absl::Status Admit(absl::Time now);

  // Turns behind this one in the queue that were admitted before it, for want of memory.
  uint32_t times_overtaken() const { return times_overtaken_; }
  void CountOvertaken() { ++times_overtaken_; }

  // Takes in what an Append's caller has sent since.
  void TakeInput();

  // How long it has had nothing to do but wait for its client, who neither read nor sent.
  absl::Duration ClientSilence(absl::Time now);

  // What it could do in the next step; nothing while it waits for its reader, or for input that
  // reaches the next place where a prompt may be cut.
  std::optional<StepCandidate> Candidate();

  // Its part of a step of `num_tokens`. Valid until Absorb.
  ls_batch_entry Entry(uint32_t num_tokens);
  // Takes in the step's outcome; may end the turn.
  void Absorb(const ls_result& result, uint32_t num_tokens, uint64_t step_number, absl::Time now);

  // Ends the turn with an error. The session goes back as the request asks (`kKeep` applies to a
  // caller's cancel, disconnect or deadline, not to a failure of the backend).
  void Abort(absl::Status status);

 private:
  enum class Phase { kWaiting, kPrefill, kDecode };

  uint64_t unread() const { return session_->tokens.size() - session_->sequence.position(); }
  bool CallerAborted(const absl::Status& status) const;
  // What the tokenizer puts before the first text of a session; nothing anywhere else.
  std::span<const int32_t> PrefixOf(bool is_text) const;
  absl::Status CheckRoom(uint64_t added) const;
  absl::Status TakeMemory();
  absl::Status ReserveForRequest();
  // The prompt fills the context: there is nothing to draw a token for.
  void EndAtContext();
  void AddPromptToHistory();
  void AddToHistory(std::span<const int32_t> tokens);

  void AbsorbScore(const ls_result& result);
  void AbsorbPrefill(absl::Time now);
  void AbsorbToken(const ls_result& result, absl::Time now);

  // Puts history and caches back to `history` tokens.
  void RollBack(uint64_t history);
  void End(TurnEnd end);

  const std::shared_ptr<Turn> turn_;
  const std::shared_ptr<Session> session_;
  ServedModel* const model_;
  ModelMetrics* const metrics_;
  const FailureListener& on_failure_;

  Phase phase_ = Phase::kWaiting;
  bool ended_ = false;
  bool input_open_;
  uint64_t last_step_ = 0;
  uint32_t times_overtaken_ = 0;
  uint64_t start_tokens_ = 0;        // of the history before the turn
  std::span<const int32_t> prefix_;  // of the prompt; owned by the tokenizer
  uint64_t prefill_total_ = 0;       // tokens to read before the first draw
  uint64_t scored_ = 0;              // kScore: tokens reported
  // What changes when the client does something, and since when it has not.
  uint64_t client_progress_ = 0;
  absl::Time client_seen_;
  std::optional<Generator> generator_;
  TurnUsage usage_;
  absl::Time admitted_;
  absl::Time prefilled_;
  absl::Time last_token_;
  std::vector<int32_t> targets_;  // of the entry in flight
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SCHEDULER_ACTIVE_TURN_H_
