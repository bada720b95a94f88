// The right to a session's turn.
#ifndef LONGSTREAM_SERVICE_SESSIONS_TURN_LEASE_H_
#define LONGSTREAM_SERVICE_SESSIONS_TURN_LEASE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/session.h"

namespace longstream {

// Every turn takes the lease of its session first, and so do opening and forking. The holder alone
// reads and changes the session's state. A lease that is dropped gives the turn back: so a turn
// that is refused, on whichever thread and for whichever reason, leaves the session free.
//
// Movable; an empty lease holds nothing. Not thread-safe: one holder at a time.
class TurnLease {
 public:
  TurnLease() = default;
  ~TurnLease() { Drop(); }
  TurnLease(TurnLease&& other) noexcept = default;
  TurnLease& operator=(TurnLease&& other) noexcept;

  // ABORTED: another turn runs, or the session is being opened. NOT_FOUND: it is closed.
  // FAILED_PRECONDITION: `expected_position` is given and is not the session's position.
  static absl::StatusOr<TurnLease> Take(std::shared_ptr<Session> session,
                                        std::optional<uint64_t> expected_position = std::nullopt);

  // Makes a session and leases it: nobody else can use it until the lease is dropped.
  static TurnLease OfNewSession(SessionId id, std::string model, uint64_t context_limit,
                                absl::Duration idle_timeout);

  // Whether this is a lease of a session. The functions below require it.
  explicit operator bool() const { return session_ != nullptr; }

  const std::shared_ptr<Session>& session() const { return session_; }
  SessionState& state() { return session_->state_; }
  const SessionState& state() const { return session_->state_; }

  // Publishes the position and the bytes held (Session::View), while the turn goes on and before a
  // lease is dropped that has changed them. For the engine's thread alone, because it reads the
  // caches.
  void Publish() { session_->Publish(); }

  // Gives the turn back. Does nothing to an empty lease.
  void Drop();

 private:
  explicit TurnLease(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  std::shared_ptr<Session> session_;  // shared: it may leave the table while the turn runs
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_TURN_LEASE_H_
