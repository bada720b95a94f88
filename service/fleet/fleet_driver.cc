// Each function posts a task to the driver's thread.
#include "service/fleet/fleet_driver.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "service/fleet/driver_core.h"

namespace longstream::fleet {
namespace {

void Enter(const std::shared_ptr<DriverCore>& core, Work work, const SessionKey& session,
           const TurnId& turn, const SessionGate::Entered& entered) {
  if (core->Post([core = core.get(), work, session, turn, entered] {
        core->Enter(work, session, turn, entered);
      })) {
    return;
  }
  entered(absl::UnavailableError("this server is shutting down"));
}

// Nothing is left to do if the driver has stopped.
void PostEvent(const std::shared_ptr<DriverCore>& core, Event event) {
  (void)core->Post(
      [core = core.get(), event = std::move(event)]() mutable { core->Handle(std::move(event)); });
}

}  // namespace

FleetDriver::FleetDriver(FleetDriverOptions options, FleetStore* store, store::CommitQueue* commits)
    : core_(std::make_shared<DriverCore>(std::move(options), store, commits)) {}

FleetDriver::~FleetDriver() { core_->Stop(); }

void FleetDriver::Start(SessionCopies* copies, Peers* peers) { core_->Start(copies, peers); }
void FleetDriver::Stop() { core_->Stop(); }

void FleetDriver::EnterTurn(const SessionKey& session, const TurnId& turn, Entered entered) {
  Enter(core_, Work::kTurn, session, turn, entered);
}

void FleetDriver::EnterChange(const SessionKey& session, Entered entered) {
  Enter(core_, Work::kChange, session, {}, entered);
}

void FleetDriver::EnterChangeHere(const SessionKey& session, Entered entered) {
  if (!core_->Post(
          [core = core_.get(), session, entered] { core->EnterChangeHere(session, entered); })) {
    entered(absl::UnavailableError("this server is shutting down"));
  }
}

void FleetDriver::EnterClose(const SessionKey& session, Entered entered) {
  Enter(core_, Work::kClose, session, {}, entered);
}

void FleetDriver::AttachRunning(const SessionKey& session, const TurnId& turn, Entered entered) {
  if (!core_->Post([core = core_.get(), session, turn, entered] {
        core->AttachRunning(session, turn, entered);
      })) {
    entered(absl::UnavailableError("this server is shutting down"));
  }
}

void FleetDriver::RelayEnded(uint64_t relay, const absl::Status& outcome) {
  (void)core_->Post([core = core_.get(), relay, outcome] { core->RelayEnded(relay, outcome); });
}

void FleetDriver::Opened(const SessionKey& session, int64_t epoch, int64_t version) {
  PostEvent(core_, SessionOpened{session, epoch, version});
}

void FleetDriver::Evicted(const SessionKey& session) { PostEvent(core_, CopyEvicted{session}); }

void FleetDriver::CachesLost(const SessionKey& session, const absl::Status& why) {
  (void)core_->Post(
      [core = core_.get(), lost = LostCaches{LostCaches::Where::kArrived, session, {}, why}] {
        core->CachesLost(lost);
      });
}

// The peers' server and RelayEnded stand for the messages about streams.
void FleetDriver::MessageArrived(const ReplicaName& from, PeerMessage message) {
  if (std::holds_alternative<Attach>(message) || std::holds_alternative<Attached>(message)) return;
  (void)core_->Post([core = core_.get(), from, message = std::move(message)]() mutable {
    core->MessageArrived(from, std::move(message));
  });
}

void FleetDriver::GivingBroken(const ReplicaName& peer, Number request) {
  (void)core_->Post([core = core_.get(), peer, request] { core->GivingBroken(peer, request); });
}

void FleetDriver::CallRefused(const ReplicaName& peer, Number request, const absl::Status& why) {
  (void)core_->Post(
      [core = core_.get(), peer, request, why] { core->CallRefused(peer, request, why); });
}

void FleetDriver::LeaseRenewed(const RenewedLease& renewed) {
  (void)core_->Post([core = core_.get(), renewed] { core->LeaseRenewed(renewed); });
}

void FleetDriver::LeaseOver() { PostEvent(core_, fleet::LeaseOver{}); }
void FleetDriver::LeaseReplaced() { PostEvent(core_, fleet::LeaseReplaced{}); }
void FleetDriver::BeginDrain() { PostEvent(core_, DrainBegins{}); }
void FleetDriver::GraceOver() { PostEvent(core_, fleet::GraceOver{}); }
void FleetDriver::DrainOver() { PostEvent(core_, fleet::DrainOver{}); }

bool FleetDriver::Lives(const ReplicaName& other) const { return core_->Lives(other); }
bool FleetDriver::IsFirst() const { return core_->IsFirst(); }

FleetCounts FleetDriver::Counts() const { return core_->Counts(); }

}  // namespace longstream::fleet
