// The tokens and caches of a session while a turn changes them.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/host_memory/host_memory.h"
#include "service/models/backend_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Keeps tokens and caches consistent: the caches never hold a token that is not in the history.
// Holds the lease of one turn. Used by the engine thread alone.
class TurnHistory {
 public:
  // `kept_tokens`: the turn adds to the session's first `kept_tokens` tokens; absent: to all
  // tokens. `backend` outlives the history.
  TurnHistory(TurnLease lease, BackendModel* backend, std::optional<uint64_t> kept_tokens);

  const Session& session() const { return *lease_.session(); }
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

  // How many tokens the turn computes again although they were in the caches once, and why. The
  // turn reports both.
  uint64_t recomputed_tokens() const;
  const std::string& recompute_reason() const {
    return lease_.session()->caches().recompute_reason;
  }

  // Makes caches if the session has none. A scored text has no caches yet, and RollBack may have
  // dropped the caches of a session. Sets *made to whether this call made them.
  absl::Status EnsureCaches(bool* made);
  void DropCaches() { sequence() = Sequence(); }

  // Cut removes the tokens after the first start() ones. PutBack restores them.
  void Cut();
  void PutBack();

  void Append(std::span<const int32_t> tokens, bool generated);
  void Append(int32_t token, bool generated) { Append({&token, 1}, generated); }

  // Rolls tokens and caches back to `size` tokens. If the caches can only return to an earlier
  // position, the next turn computes the tokens between that position and `size` again and reports
  // `reason`.
  void RollBack(uint64_t size, std::string reason);

  // Called when the turn ends. Gives back the memory that it reserved and did not use. `whole`: the
  // caches have read all tokens that they should.
  void Settle(bool whole);

  const TextTail& tail() const { return lease_.state().tail; }
  void set_tail(TextTail tail) { lease_.state().tail = std::move(tail); }
  void set_conversation(std::shared_ptr<const chat::History> conversation) {
    lease_.state().conversation = std::move(conversation);
  }

  void Publish() { lease_.Publish(); }
  // Calls Publish, then drops the lease. The history must not be used afterwards.
  void GiveBack();

 private:
  SessionState& state() { return lease_.state(); }
  SessionCaches& caches() { return lease_.session()->caches(); }
  const SessionCaches& caches() const { return lease_.session()->caches(); }

  TurnLease lease_;
  BackendModel* const backend_;
  const uint64_t start_;
  std::vector<int32_t> cut_tokens_;  // the tokens that Cut removed
  std::vector<bool> cut_generated_;
  HostCharge cut_charge_;             // for the two vectors above
  uint64_t cut_computed_tokens_ = 0;  // SessionCaches::computed_tokens before the cut
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
