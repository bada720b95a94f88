// To let time pass, the times in the tables are moved into the past.
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/fleet/outcome.h"
#include "service/sessions/store/postgres/postgres_fleet.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "tests/service/sessions/fleet_store/fleet_database.h"
#include "tests/service/sessions/fleet_store/fleet_under_test.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream::fleet {
namespace {

using store::ApplyOne;
using store::At;
using store::OwnerCondition;

class PostgresFleetUnderTest final : public FleetUnderTest {
 public:
  ReplicaName Join(const std::string& replica_id) override {
    const absl::StatusOr<ReplicaName> name = fleet_.Join(replica_id);
    EXPECT_TRUE(name.ok()) << name.status();
    return name.value_or("");
  }
  std::optional<Renewal> Renew(const ReplicaName& replica) override {
    absl::StatusOr<RenewedLease> renewed = fleet_.Renew({replica, "", "", false}, kLeaseTtl);
    if (!renewed.ok()) {
      EXPECT_EQ(renewed.status().code(), absl::StatusCode::kFailedPrecondition) << renewed.status();
      return std::nullopt;
    }
    Renewal renewal{renewed->generation, renewed->lapsed, {}};
    for (const Replica& other : renewed->others) renewal.others.push_back(other.name);
    return renewal;
  }
  void Release(const ReplicaName& replica) override {
    const absl::Status status = fleet_.Release(replica);
    EXPECT_TRUE(status.ok()) << status;
  }

  void Pass(absl::Duration duration) override {
    const std::string interval =
        absl::StrCat("interval '", absl::ToInt64Seconds(duration), " seconds'");
    database_.Run(absl::StrCat("UPDATE leases SET lease_end = lease_end - ", interval));
    database_.Run(absl::StrCat("UPDATE fleet SET claims_from = claims_from - ", interval));
  }
  std::optional<Renewal> Restart(const ReplicaName& noticed_by) override {
    database_.Run("UPDATE fleet SET timeline = 'former'");
    return Renew(noticed_by);
  }

  void Open(const SessionKey& session, const ReplicaName& owner) override {
    store::SessionRow row = store::NewSession(0);
    row.key = session;
    row.owner = owner;
    ASSERT_TRUE(ApplyOne(*store_, store::OpenSession{row}).ok());
  }
  OwnedRow Read(const SessionKey& session, const std::optional<TurnId>& turn) override {
    const absl::StatusOr<OwnedRow> row = fleet_.ReadRow(session, turn);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.value_or(OwnedRow{});
  }
  Outcome Apply(const Transaction& transaction) override {
    const absl::Status made = ApplyOne(*store_, ChangeOf(transaction)).status();
    return OutcomeOf(made, transaction.kind);
  }

 private:
  store::Change ChangeOf(const Transaction& transaction) {
    const Fence& fence = transaction.fence;
    switch (transaction.kind) {
      case TransactionKind::kClaim:
        return store::ChangeOwner{fence, transaction.owner, OwnerCondition::kClaim};
      case TransactionKind::kTransfer:
        return store::ChangeOwner{fence, transaction.owner, OwnerCondition::kTransfer};
      case TransactionKind::kStart: {
        store::TurnRow turn = store::NewTurn(0);
        turn.id = transaction.turn;
        return store::StartTurn{fence, turn};
      }
      case TransactionKind::kCommit:
        return store::CommitTurn{.fence = fence,
                                 .turn = NumberOf(transaction),
                                 .position = 1,
                                 .result = "",
                                 .now = At(2)};
      case TransactionKind::kAbandon:
        return store::AbandonTurn{
            .fence = fence, .turn = NumberOf(transaction), .result = "", .now = At(2)};
      case TransactionKind::kChange:
        return store::MoveHead{fence, NewHead(), At(3)};
      case TransactionKind::kClose:
        return store::CloseSession{.key = fence.key, .fence = fence, .now = At(4)};
    }
    return store::CloseSession{};
  }
  store::TurnNumber NumberOf(const Transaction& transaction) {
    const auto turn = store_->Turn(transaction.fence.key, transaction.turn);
    return turn.ok() ? turn->number : INT64_MAX;
  }
  // A committed turn of another session.
  store::TurnNumber NewHead() {
    const uint64_t id = 1'000'000 + ++num_heads_;
    EXPECT_TRUE(ApplyOne(*store_, store::OpenSession{store::NewSession(id)}).ok());
    const store::TurnNumber head = CommitOne(*store_, store::NewSession(id).key, 1, 1);
    EXPECT_NE(head, store::kNoTurn);
    return head;
  }

  FleetDatabase database_;
  const std::unique_ptr<store::PostgresStore> store_ = database_.OpenStore();
  store::PostgresFleet fleet_{{.url = database_.url(), .password = "", .timeout = kLong}};
  uint64_t num_heads_ = 0;
};

}  // namespace

std::unique_ptr<FleetUnderTest> NewPostgresFleet() {
  return std::make_unique<PostgresFleetUnderTest>();
}

}  // namespace longstream::fleet
