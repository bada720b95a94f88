// The model's time is a number that the test moves.
#include <map>

#include "tests/fleet/model_store.h"
#include "tests/service/sessions/fleet_store/fleet_under_test.h"

namespace longstream::fleet {
namespace {

class ModelFleet final : public FleetUnderTest {
 public:
  ReplicaName Join(const std::string& replica_id) override {
    return replica_id + "/" + std::to_string(++last_incarnation_);
  }
  std::optional<Renewal> Renew(const ReplicaName& replica) override {
    const std::optional<LeaseRenewed> renewed = store_.Renew(replica, now_);
    if (!renewed.has_value()) return std::nullopt;
    return Renewal{renewed->generation, renewed->lapsed, store_.Peers(replica, now_)};
  }
  void Release(const ReplicaName& replica) override { store_.Release(replica); }

  void Pass(absl::Duration duration) override { now_ += absl::ToInt64Microseconds(duration); }
  std::optional<Renewal> Restart(const ReplicaName& noticed_by) override {
    store_.Restart(now_);
    return Renew(noticed_by);
  }

  void Open(const SessionKey& session, const ReplicaName& owner) override {
    store_.Open(session, owner);
  }
  OwnedRow Read(const SessionKey& session, const std::optional<TurnId>& turn) override {
    return store_.Read(session, turn, now_);
  }
  Outcome Apply(const Transaction& transaction) override {
    Content content = 0;
    if (transaction.kind == TransactionKind::kCommit) {
      content = After(store_.ContentOf(transaction.fence.key), transaction.turn);
    }
    if (transaction.kind == TransactionKind::kChange) content = ++last_change_;
    return store_.Apply(transaction, /*by=*/"", content, now_);
  }

 private:
  ModelStore store_{absl::ToInt64Microseconds(kLeaseTtl)};
  Micros now_ = 1;
  int last_incarnation_ = 0;
  CallId last_change_ = 0;
};

}  // namespace

std::unique_ptr<FleetUnderTest> NewModelFleet() { return std::make_unique<ModelFleet>(); }

}  // namespace longstream::fleet
