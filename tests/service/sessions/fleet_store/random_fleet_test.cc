// Random operations have the same results in PostgreSQL as in the reference.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/sessions/fleet_store/fleet_under_test.h"

namespace longstream::fleet {
namespace {

constexpr int kReplicas = 3;
constexpr int kDrawnSessions = 3;
constexpr uint64_t kTurns = 6;  // ids of turns in a session

class RandomFleetTest : public testing::TestWithParam<uint32_t> {
 protected:
  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool OneIn(int times) { return Draw(times) == 0; }

  SessionKey Session(int number) const { return {"", {7, static_cast<uint64_t>(number)}}; }
  TurnId DrawTurn() { return {9, static_cast<uint64_t>(Draw(kTurns))}; }
  // Some incarnation of some replica, mostly the last one.
  ReplicaName DrawReplica() {
    const std::vector<ReplicaName>& names = names_[static_cast<size_t>(Draw(kReplicas))];
    return OneIn(5) ? names[static_cast<size_t>(Draw(static_cast<int>(names.size())))]
                    : names.back();
  }

  void Join(int replica) {
    const std::string id = std::to_string(replica);
    const ReplicaName name = model_->Join(id);
    ASSERT_EQ(database_->Join(id), name);
    names_[static_cast<size_t>(replica)].push_back(name);
  }
  void ExpectSame(const std::optional<Renewal>& model, const std::optional<Renewal>& database,
                  const ReplicaName& replica) {
    ASSERT_EQ(model.has_value(), database.has_value()) << replica;
    if (!model.has_value()) return;
    EXPECT_EQ(database->generation, model->generation) << replica;
    EXPECT_EQ(database->lapsed, model->lapsed) << replica;
    EXPECT_EQ(database->others, model->others) << replica;
  }
  void ExpectSameRow(const SessionKey& session, const std::optional<TurnId>& turn) {
    const OwnedRow model = model_->Read(session, turn), row = database_->Read(session, turn);
    EXPECT_EQ(row.open, model.open);
    EXPECT_EQ(row.owner, model.owner);
    EXPECT_EQ(row.epoch, model.epoch);
    EXPECT_EQ(row.version, model.version);
    EXPECT_EQ(row.turn, model.turn);
    EXPECT_EQ(row.owner_lives, model.owner_lives);
    EXPECT_EQ(row.claims_allowed, model.claims_allowed);
  }

  void Transact() {
    static constexpr TransactionKind kKinds[] = {
        TransactionKind::kClaim,  TransactionKind::kClaim,  TransactionKind::kTransfer,
        TransactionKind::kStart,  TransactionKind::kCommit, TransactionKind::kChange,
        TransactionKind::kAbandon};
    const SessionKey session = Session(Draw(kDrawnSessions));
    const TurnId turn = DrawTurn();
    const OwnedRow row = model_->Read(session, turn);
    if (!row.open) return;
    Transaction transaction{kKinds[Draw(7)], {session, row.epoch, row.version}, turn, {}};
    if (OneIn(6)) transaction.fence.version -= 1;
    if (OneIn(12)) transaction.fence.epoch += 1;
    if (OneIn(60)) transaction.kind = TransactionKind::kClose;
    const bool takes = transaction.kind == TransactionKind::kClaim ||
                       transaction.kind == TransactionKind::kTransfer;
    if (takes) transaction.owner = DrawReplica();
    // The driver knows the number of the turn that it commits or abandons.
    const bool ends = transaction.kind == TransactionKind::kCommit ||
                      transaction.kind == TransactionKind::kAbandon;
    if (ends && !row.turn.has_value()) return;
    const Outcome model = model_->Apply(transaction);
    EXPECT_EQ(database_->Apply(transaction), model)
        << "kind " << static_cast<int>(transaction.kind) << " by " << transaction.owner;
    made_ += model == Outcome::kMade ? 1 : 0;
  }

  void Step() {
    const ReplicaName replica = DrawReplica();
    const int what = Draw(20);
    if (what < 5) {
      ExpectSame(model_->Renew(replica), database_->Renew(replica), replica);
    } else if (what < 7) {
      const absl::Duration passed = absl::Hours(1 + 2 * Draw(3));
      model_->Pass(passed);
      database_->Pass(passed);
    } else if (what == 7) {
      model_->Release(replica);
      database_->Release(replica);
    } else if (what == 8 && OneIn(3)) {
      const ReplicaName& last = names_[0].back();  // its renewal is never refused
      ExpectSame(model_->Restart(last), database_->Restart(last), last);
    } else if (what == 9 && OneIn(2)) {
      Join(Draw(kReplicas));
    } else if (what < 17) {
      Transact();
    } else {
      ExpectSameRow(Session(Draw(kDrawnSessions)), DrawTurn());
    }
  }

  std::mt19937 random_{GetParam()};
  const std::unique_ptr<FleetUnderTest> model_ = NewModelFleet();
  const std::unique_ptr<FleetUnderTest> database_ = NewPostgresFleet();
  std::vector<ReplicaName> names_[kReplicas];  // of each replica: its incarnations
  int made_ = 0;
};

TEST_P(RandomFleetTest, IsAsTheReference) {
  for (int i = 0; i < kReplicas; ++i) Join(i);
  for (int i = 0; i < kDrawnSessions; ++i) {
    const ReplicaName& owner = names_[i].front();
    ExpectSame(model_->Renew(owner), database_->Renew(owner), owner);
    model_->Open(Session(i), owner);
    database_->Open(Session(i), owner);
  }
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    Step();
  }
  for (int i = 0; i < kDrawnSessions; ++i) ExpectSameRow(Session(i), std::nullopt);
  EXPECT_GT(made_, 10) << "the test does too little";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFleetTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace longstream::fleet
