// Prepares and starts turns.
#include "service/serving/turn_handle.h"

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longstream {

absl::Status NewTurn::Lease(std::optional<uint64_t> expected_position) {
  if (engine_->draining()) return absl::UnavailableError("the server is draining");
  if (session_ == nullptr) {
    lease_ =
        TurnLease::OfNewSession(SessionId{}, model().name(), model().backend().info().context_limit,
                                absl::InfiniteDuration(), host_memory_);
    return lease_.ChargeNew(/*source=*/nullptr);
  }
  absl::StatusOr<TurnLease> lease = TurnLease::Take(session_, expected_position);
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);
  return absl::OkStatus();
}

absl::Status NewTurn::Refuse(absl::Status status) const {
  engine_->CountRefusal(status);
  return status;
}

TurnHandle NewTurn::Make(TurnRequest request, std::function<void()> wake) const {
  auto turn = std::make_shared<Turn>(std::move(request));
  turn->stream.SetReader(std::move(wake));
  return TurnHandle(engine_, std::move(turn));
}

absl::Status NewTurn::Start(const TurnHandle& handle) {
  const absl::Status charged = handle.turn_->Charge(host_memory_);
  if (charged.ok()) return engine_->Start(handle.turn_, std::move(lease_));
  lease_.Drop();
  return Refuse(charged);
}

}  // namespace longstream
