// A session's tokens and caches while a turn changes them.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/models/backend_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Keeps the two in step: the caches have all tokens but the unread ones, and never more. Used by
// the engine thread alone, for one turn, whose lease it holds.
class TurnHistory {
 public:
  // `kept_tokens`: the turn adds to so many tokens; absent: to all. `backend` outlives the history.
  TurnHistory(TurnLease lease, BackendModel* backend, std::optional<uint64_t> kept_tokens);

  const Session& session() const { return *lease_.session(); }
  const std::vector<int32_t>& tokens() const { return lease_.state().tokens; }
  const std::vector<bool>& generated() const { return lease_.state().generated; }
  uint64_t size() const { return tokens().size(); }
  // Tokens of the history that the turn adds to.
  uint64_t start() const { return start_; }

  Sequence& sequence() { return lease_.session()->caches().sequence; }
  const Sequence& sequence() const { return lease_.session()->caches().sequence; }
  // Tokens in the caches; absent: there are no caches.
  std::optional<uint64_t> cached() const;
  // Bytes in the caches; absent: there are no caches.
  std::optional<SessionBytes> bytes() const;
  // Tokens that the caches have yet to read.
  uint64_t unread() const;

  // The next turn's report: tokens that were in the caches once and are computed again, and why.
  uint64_t recomputed_tokens() const;
  const std::string& recompute_reason() const {
    return lease_.session()->caches().recompute_reason;
  }

  // Makes caches if the session has none: a scored text has none yet, and a session may have lost
  // its own (RollBack). *made: this call has made them.
  absl::Status EnsureCaches(bool* made);
  void DropCaches() { sequence() = Sequence(); }

  // Cut removes the tokens behind start(), PutBack restores them.
  void Cut();
  void PutBack();

  void Append(std::span<const int32_t> tokens, bool generated);
  void Append(int32_t token, bool generated) { Append({&token, 1}, generated); }

  // Puts tokens and caches back to `size` tokens. If the caches cannot go back exactly so far, the
  // next turn reads the tokens between again and reports `reason`.
  void RollBack(uint64_t size, std::string reason);

  // The turn ends: gives back the memory that it reserved and did not use. `whole`: the caches have
  // read all that they should.
  void Settle(bool whole);

  void set_conversation(std::shared_ptr<const chat::History> conversation) {
    lease_.state().conversation = std::move(conversation);
  }

  void Publish() { lease_.Publish(); }
  // Publishes and gives the session's turn back. The history is not used after it.
  void GiveBack();

 private:
  SessionState& state() { return lease_.state(); }
  SessionCaches& caches() { return lease_.session()->caches(); }
  const SessionCaches& caches() const { return lease_.session()->caches(); }

  TurnLease lease_;
  BackendModel* const backend_;
  const uint64_t start_;
  std::vector<int32_t> cut_tokens_;  // from start() on
  std::vector<bool> cut_generated_;
  uint64_t cut_computed_tokens_ = 0;  // SessionCaches::computed_tokens before the cut
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_HISTORY_H_
