// The lease of a session: the right to run a turn on it.
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

// Every turn takes the lease of its session first, and so do opening and forking. Only the holder
// of the lease reads and changes the state of the session. The destructor drops the lease. So a
// refused turn leaves the session free, on whichever thread and for whichever reason it was
// refused.
//
// Movable. An empty lease holds no session. Not thread-safe: one holder at a time.
class TurnLease {
 public:
  TurnLease() = default;
  ~TurnLease() { Drop(); }
  TurnLease(TurnLease&& other) noexcept = default;
  TurnLease& operator=(TurnLease&& other) noexcept;

  // Takes the lease of a session. ABORTED: another turn is running, or the session is being opened
  // or forked. NOT_FOUND: the session is closed. FAILED_PRECONDITION: `expected_position` is given
  // and differs from the position of the session.
  static absl::StatusOr<TurnLease> Take(std::shared_ptr<Session> session,
                                        std::optional<uint64_t> expected_position = std::nullopt);
  // Takes the lease of a session that no call uses or has found, for work of the server. This is
  // no use of the session: its idle time goes on. Returns an empty lease if there is such a call.
  static TurnLease TakeUnused(std::shared_ptr<Session> session);

  // Makes a session and takes its lease. No one else can use the session until the lease is
  // dropped. `host_memory` counts the memory of the session (ChargeNew); nullptr: nothing counts
  // it. `tenant`: whose session it is; nullptr: nobody's.
  static TurnLease OfNewSession(SessionId id, std::string model, uint64_t context_limit,
                                absl::Duration idle_timeout, HostMemory* host_memory = nullptr,
                                std::shared_ptr<Tenant> tenant = nullptr);

  // Whether this holds the lease of a session. The functions below require that it does.
  explicit operator bool() const { return session_ != nullptr; }

  const std::shared_ptr<Session>& session() const { return session_; }
  SessionState& state() { return session_->state_; }
  const SessionState& state() const { return session_->state_; }

  // Counts the memory of a new session. `source`: the state that the session will be a copy of, or
  // nullptr. RESOURCE_EXHAUSTED: as for HostCharge::Add.
  absl::Status ChargeNew(const SessionState* source) { return session_->ChargeNew(source); }
  // Counts the memory of the session again. Call it when tokens have been added or removed; Publish
  // does it too.
  void CountHost() { session_->CountHost(); }
  // The memory of the session; for the host's memory, the last count. Only the engine thread may
  // call it, because it reads the caches.
  SessionBytes Bytes() const { return session_->Bytes(); }

  // Updates the position and the bytes that Session::View reports. Call it while the turn runs, and
  // before the lease is dropped if they have changed. Only the engine thread may call it, because
  // it reads the caches.
  void Publish() { session_->Publish(); }

  // Gives the lease back. Does nothing if this lease is empty.
  void Drop();

 private:
  explicit TurnLease(std::shared_ptr<Session> session, bool is_use = true)
      : session_(std::move(session)), is_use_(is_use) {}

  std::shared_ptr<Session> session_;  // shared, because it may leave the table while the turn runs
  bool is_use_ = true;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_TURN_LEASE_H_
