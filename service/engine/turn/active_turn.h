// A turn in the hands of the engine: from the queue, through its prompt and its tokens, to its end.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/policy/admission_budget.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/turn/generator.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"

namespace longstream {

// Told of every turn that ended with INTERNAL. Runs on the engine thread and must not block.
using FailureListener = std::function<void(std::string_view model, const absl::Status& status)>;

// Used by the engine thread alone. However it ends, its session is left at a committed state and
// its stream has an end.
//
// A turn may be part of two steps in flight: pieces of its prompt follow each other, and a step may
// read the token that the one before it draws, before anybody here has seen it. While it is in
// flight its sequence is the backend's: a turn that is to end, for whatever reason, ends when the
// last of its steps has been taken in, and what that has read too much is taken back.
class ActiveTurn {
 public:
  // The caller has begun the session's turn (kScore: there is none). `on_failure` may be empty.
  ActiveTurn(std::shared_ptr<Turn> turn, ServedModel* model, ModelMetrics* metrics,
             const FailureListener& on_failure);

  const Turn& turn() const { return *turn_; }
  const Session& session() const { return *session_; }
  // Its stream has the end; nothing in flight refers to it.
  bool ended() const { return ended_; }

  // Looks at the request in the light of the session, which nobody else changes from here on: at
  // most once, before Admit. CANCELLED: the session was closed. INVALID_ARGUMENT: there is nothing
  // to generate from, or more than the context holds.
  absl::Status Prepare();

  // Takes memory for the prompt and the tokens to come, and marks the state to go back to.
  // RESOURCE_EXHAUSTED: nothing was taken, the turn may wait.
  absl::Status Admit(MonotonicTime now);

  // What Admit asks for besides what the session holds. A page that a fork shares and that would
  // have to be copied is left out: it may be one more.
  PoolBytes BytesWanted() const;
  // The same in words: a RESOURCE_EXHAUSTED that names the tokens.
  absl::Status NoRoom() const;

  // Of an admitted turn: what its end gives back if it ends as it stands, and what it gives back at
  // most, when it is rolled back. In bytes of the cache budget; 0 once it has ended.
  uint64_t BytesUnused() const;
  uint64_t MostBytesBack() const;

  // Turns behind this one in the queue that were admitted before it, for want of memory.
  uint32_t times_overtaken() const { return times_overtaken_; }
  void CountOvertaken() { ++times_overtaken_; }

  // Takes in what an Append's caller has sent since.
  void TakeInput();

  // How long it has had nothing to do but wait for its client, who neither read nor sent.
  absl::Duration ClientSilence(MonotonicTime now);

  // What it could do in a step submitted now; nothing while it waits for its reader, for input that
  // reaches the next place where a prompt may be cut, or for the result of a step in flight.
  std::optional<StepCandidate> Candidate();
  // Whether it is that result alone that keeps it from being a candidate.
  bool AwaitsResult();
  // Whether it is part of a step in flight, or could be of the next.
  bool Computes() { return in_flight() || Candidate().has_value(); }

  // Its part of a step of `num_tokens`. Valid until the turn changes.
  ls_batch_entry Entry(uint32_t num_tokens);
  // The step with the last entry is in flight.
  void Submitted(uint64_t step_number);
  // It was refused as a whole, for whichever of its entries: the next one is to be this turn's
  // alone.
  void Refused() { steps_alone_ = true; }
  bool steps_alone() const { return steps_alone_; }
  // Takes in the outcome of the oldest step in flight; may end the turn.
  void Absorb(const ls_result& result, MonotonicTime now);
  // The same where that step failed as a whole, with what the turn ends with.
  void AbsorbFailure(absl::Status status);

  // Ends the turn with an error, at once or when it is not in flight any more. The first reason to
  // end stands. The session goes back as the request asks (`kKeep` applies to a caller's cancel,
  // disconnect or deadline, not to a failure of the backend).
  void Abort(absl::Status status);

 private:
  enum class Phase { kWaiting, kPrefill, kDecode };

  // Its part of a step in flight.
  struct Piece {
    uint64_t begin = 0;  // positions
    uint64_t end = 0;
    bool draws = false;  // the token at `end`
  };

  bool in_flight() const { return !in_flight_.empty(); }
  bool ending() const { return outcome_.has_value(); }
  // A token that is not known yet belongs behind the history.
  bool drawing() const { return in_flight() && in_flight_.back().draws; }
  // Tokens of the history that no step has read or is reading.
  uint64_t unread() const;
  // Whether another token will be drawn, for all that is known, after the one in flight; and
  // whether that one can be read before it is known.
  bool GoesOn() const;
  bool CanLookAhead() const;
  bool CallerAborted(const absl::Status& status) const;
  // Cuts the history to the tokens that the request keeps, once; or puts back what was cut.
  void CutHistory();
  void PutBackHistory();
  // What the tokenizer puts before the first text of a session; nothing anywhere else.
  std::span<const int32_t> PrefixOf(bool is_text) const;
  // The one of the two that follows the history (TurnRequest::continued_prompt).
  std::span<const int32_t> Following(const std::vector<int32_t>& history,
                                     const std::vector<int32_t>& tokens,
                                     const std::optional<std::vector<int32_t>>& continued) const;
  absl::Status CheckRoom(uint64_t added) const;
  // The prompt fills the context: no token is drawn, and no memory needed.
  bool FillsContext() const;
  // The position up to which the request asks for room.
  uint64_t RequestedEnd() const;
  absl::Status TakeMemory();
  absl::Status ReserveForRequest();
  // Room for so many tokens more; what was reserved before stands where there is none.
  absl::Status Reserve(uint64_t tokens);
  // Of the budget, for a reservation of `pages` bytes of pages.
  uint64_t BytesBack(uint64_t pages) const;
  void EndAtContext();
  void AddPromptToHistory();
  void AddToHistory(std::span<const int32_t> tokens);

  // Takes the oldest piece out of flight. Nothing: the turn is ending, and needs it no more.
  std::optional<Piece> Land();
  void AbsorbScore(const ls_result& result);
  void AbsorbPrefill(uint64_t position, MonotonicTime now);
  // The prompt has been read to its end, by the piece that landed last; what does not generate
  // ends.
  void FinishPrefill();
  void AbsorbToken(const ls_result& result, MonotonicTime now);

  // The turn ends like this: Conclude, at once or when it is not in flight any more.
  void End(TurnEnd end);
  void Conclude();
  // Puts the session where the end says, if that is not where it stands.
  void Restore(const absl::Status& status);
  // Puts history and caches back to `history` tokens.
  void RollBack(uint64_t history, std::string reason);

  const std::shared_ptr<Turn> turn_;
  const std::shared_ptr<Session> session_;
  ServedModel* const model_;
  ModelMetrics* const metrics_;
  const FailureListener& on_failure_;

  Phase phase_ = Phase::kWaiting;
  Piece next_piece_;                // of the last entry
  std::deque<Piece> in_flight_;     // in the order of their steps
  std::optional<TurnEnd> outcome_;  // the turn is ending, or has ended
  bool ended_ = false;
  bool overread_ = false;  // a step was in flight when the end was decided
  bool input_open_;
  uint64_t last_step_ = 0;
  bool steps_alone_ = false;  // until it is part of a step again
  uint32_t times_overtaken_ = 0;
  uint64_t reserved_end_ = 0;        // position up to which there is room; 0: not admitted
  uint64_t start_tokens_ = 0;        // of the history that the turn adds to
  std::vector<int32_t> cut_tokens_;  // what stood behind them (TurnRequest::kept_tokens)
  std::vector<bool> cut_generated_;
  uint64_t cut_computed_tokens_ = 0;  // Session::computed_tokens before the cut
  bool keeps_prompt_ = false;         // the history has the prompt when the turn has ended
  std::span<const int32_t> prefix_;   // of the prompt; owned by the tokenizer
  std::span<const int32_t> prompt_;   // as it follows the session's history; owned by the request
  uint64_t prefill_total_ = 0;        // tokens to read before the first draw
  uint64_t scored_ = 0;               // kScore: tokens reported
  // What changes when the client does something, and since when it has not.
  uint64_t client_progress_ = 0;
  MonotonicTime client_seen_;
  std::optional<Generator> generator_;
  TurnUsage usage_;
  MonotonicTime admitted_;
  MonotonicTime prefilled_;  // when the last piece of the prompt landed; before it: admitted_
  MonotonicTime last_token_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_ACTIVE_TURN_H_
