// The tokens and caches of a session while a turn changes them.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/policy/restore_choice.h"
#include "service/engine/turn/step_parts.h"
#include "service/engine/turn/turn_events.h"
#include "service/host_memory/host_memory.h"
#include "service/models/backend_model.h"
#include "service/sessions/feed.h"
#include "service/sessions/stored_caches.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// The snapshot in the store from which the caches of the session are had in the least time; absent
// if computing them takes no more. Only the engine thread may call it for an open session.
std::optional<StoredPlace> ChooseStored(Session& session, const BackendModel& backend,
                                        const RestoreCosts& costs);

// Keeps tokens and caches consistent: the caches never hold a token that is not in the history.
// Holds the lease of one turn. Used by the engine thread alone.
class TurnHistory {
 public:
  // `kept_tokens`: the turn adds to the session's first `kept_tokens` tokens; absent: to all
  // tokens. `backend` outlives the history.
  TurnHistory(TurnLease lease, BackendModel* backend, std::optional<uint64_t> kept_tokens);

  const Session& session() const { return *lease_.session(); }
  std::weak_ptr<Session> shared_session() const { return lease_.session(); }
  const std::vector<int32_t>& tokens() const { return lease_.state().tokens; }
  const std::vector<bool>& generated() const { return lease_.state().generated; }
  uint64_t size() const { return tokens().size(); }
  // The number of tokens that the turn adds to.
  uint64_t start() const { return start_; }

  Sequence& sequence() { return lease_.session()->caches().sequence; }
  const Sequence& sequence() const { return lease_.session()->caches().sequence; }
  // The number of tokens in the caches. Absent if there are no caches.
  std::optional<uint64_t> cached() const;
  // The bytes of the caches. Absent if there are no caches.
  std::optional<SessionBytes> bytes() const;
  // The number of tokens of the history that the caches have not read yet.
  uint64_t unread() const;

  // The turn has changed the feed from this position on.
  uint64_t feed_begin() const { return std::min(feed_begin_, feed().end()); }

  // How many tokens the turn computes again although they were in the caches once, and why. The
  // turn reports both.
  uint64_t recomputed_tokens() const;
  const std::string& recompute_reason() const {
    return lease_.session()->caches().recompute_reason;
  }

  // The caches that the turn begins with. `from_store`: those up to this position were read from
  // the store. Caches that have come from another replica count as restored only the first time.
  FoundCaches TakeFound(uint64_t from_store);

  // Makes caches if the session has none: a scored text has no caches yet, a session may have been
  // evicted, and RollBack may have dropped its caches. Sets *made to whether this call made them.
  absl::Status EnsureCaches(bool* made);
  void DropCaches() { sequence() = Sequence(); }

  // Cut removes the tokens after the first start() ones. PutBack restores them.
  void Cut();
  void PutBack();

  // Whether the caches hold only the beginning of the feed. Then the turn first reads the rest of
  // the feed again, run by run, so that the caches are as they were before.
  bool NeedsReplay() const { return sequence().position() < feed().end(); }
  // As the function below. Call it after Cut.
  std::optional<StoredPlace> ChooseStored(const RestoreCosts& costs) const {
    return longstream::ChooseStored(*lease_.session(), *backend_, costs);
  }
  // The tokens that a snapshot of this position saves computing. Call it after Cut.
  Replay SavedBy(uint64_t position) const;
  // Makes the snapshot that was read into `import` the caches, in the place of the present ones.
  // Errors as for SnapshotImport::Attach; then the present ones stay.
  absl::Status Attach(const StoredPlace& place, std::vector<uint64_t> span_ends,
                      SnapshotImport import, MonotonicTime now);
  // The snapshot is not used again.
  void RejectStored(const StoredPlace& place) { lease_.session()->stored_caches()->Reject(place); }
  // The snapshot could not be read: the turn computes the caches, and reports `reason`.
  void GiveUpStored(std::string reason) {
    caches().recompute_reason = std::move(reason);
    caches().span_ends.clear();
    caches().stored_position = 0;
  }
  // The turn changes the feed from its present end on, unless PlanReplay says otherwise.
  void NoteFeed() { feed_begin_ = feed().end(); }

  // Called when the turn is admitted, before it has a step. If the session allows it
  // (Recompute::kFast), the feed changes so that the rest is one prefill.
  void PlanReplay();
  // The run of the feed that reads the next token. REQUIRES: NeedsReplay().
  FeedRun ReplayRun() const { return feed().RunAt(sequence().position()); }
  // The caches are as they were. The session is not evicted again soon.
  void FinishReplay(MonotonicTime now);
  const Feed& feed() const { return lease_.state().feed; }
  // A step has read this part of the tokens.
  void Record(const StepPart& part);

  void Append(std::span<const int32_t> tokens, bool generated);
  void Append(int32_t token, bool generated) { Append({&token, 1}, generated); }

  // Rolls tokens and caches back to `size` tokens. If the caches can only return to an earlier
  // position, the next turn computes the tokens between that position and `size` again and reports
  // `reason`. Returns whether the backend could go back. If not, the session has new caches, and
  // the next turn reads the tokens again as before. Returns true if there are no caches.
  bool RollBack(uint64_t size, std::string reason);

  // Called when the turn ends. Gives back the memory that it reserved and did not use. `whole`: the
  // caches have read all tokens that they should.
  void Settle(bool whole);

  // The lowest position, except 0, to which the caches can go back now. Call it after Settle.
  // Copies the caches' rings and states. If there is no memory for them, forgets that these cannot
  // go back.
  uint64_t NextLowestRewind() const;

  const SessionState& session_state() const { return lease_.state(); }
  const TextTail& tail() const { return lease_.state().tail; }
  void set_tail(TextTail tail) { lease_.state().tail = std::move(tail); }
  void set_conversation(std::shared_ptr<const chat::History> conversation) {
    lease_.state().conversation = std::move(conversation);
  }

  void Publish() { lease_.Publish(); }
  // The bytes in the quota of the tenant for the session's caches, and for the memory that the turn
  // reserves for them.
  CacheCharge& cache_charge() { return lease_.session()->cache_charge(); }
  // When the caches came back after an eviction.
  MonotonicTime restored_at() const { return caches().restored_at; }
  // Counts the caches in the quota, calls Publish, then drops the lease. The history must not be
  // used afterwards.
  void GiveBack();

 private:
  SessionState& state() { return lease_.state(); }
  SessionCaches& caches() { return lease_.session()->caches(); }
  const SessionCaches& caches() const { return lease_.session()->caches(); }

  TurnLease lease_;
  BackendModel* const backend_;
  const uint64_t start_;
  uint64_t feed_begin_ = 0;
  std::vector<int32_t> cut_tokens_;  // the tokens that Cut removed
  std::vector<bool> cut_generated_;
  HostCharge cut_charge_;             // for the two vectors above
  Feed cut_feed_;                     // the feed before the cut
  uint64_t cut_computed_tokens_ = 0;  // SessionCaches::computed_tokens before the cut
  uint64_t cut_lowest_rewind_ = 0;    // SessionCaches::lowest_rewind, for the caches before the cut
};

// Replaces the state of a session by one that shares a beginning with it. The caches go back to the
// end of that beginning or, if they cannot, to a return point before it; the next turn computes the
// rest, and reports `reason`. Only the engine thread may call it.
void ReturnTo(TurnLease& lease, SessionState state, std::string reason, BackendModel& backend);
// How many of its first tokens the session has read as a session with `state` would.
uint64_t CommonTokens(const SessionState& session, const SessionState& state, uint32_t grid);

// Returns the lowest position to which Truncate can bring a sequence without a rollback point; 0 if
// it can go to any position. Truncates the sequence, so call it only if the sequence is freed next.
uint64_t LowestRewind(Sequence& sequence);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
