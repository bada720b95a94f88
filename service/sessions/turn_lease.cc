// Takes and drops leases.
#include "service/sessions/turn_lease.h"

#include <utility>

namespace longstream {

TurnLease& TurnLease::operator=(TurnLease&& other) noexcept {
  if (this != &other) {
    Drop();
    session_ = std::move(other.session_);
    is_use_ = other.is_use_;
  }
  return *this;
}

absl::StatusOr<TurnLease> TurnLease::Take(std::shared_ptr<Session> session,
                                          std::optional<uint64_t> expected_position) {
  if (absl::Status status = session->TakeTurn(expected_position); !status.ok()) return status;
  return TurnLease(std::move(session));
}

TurnLease TurnLease::TakeUnused(std::shared_ptr<Session> session) {
  if (!session->TakeUnused()) return {};
  return TurnLease(std::move(session), /*is_use=*/false);
}

TurnLease TurnLease::OfNewSession(SessionId id, std::string model, uint64_t context_limit,
                                  absl::Duration idle_timeout, HostMemory* host_memory,
                                  std::shared_ptr<Tenant> tenant) {
  return TurnLease(std::shared_ptr<Session>(new Session(
      id, std::move(model), context_limit, idle_timeout, host_memory, std::move(tenant))));
}

void TurnLease::Drop() {
  if (session_ == nullptr) return;
  // Another turn may hold the lease as soon as ReturnTurn returns. The exchange keeps the session
  // alive until the end of the call.
  std::exchange(session_, nullptr)->ReturnTurn(is_use_);
}

}  // namespace longstream
