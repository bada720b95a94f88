// Power fails at a random write, or an fsync fails. Afterwards every acknowledged change is there,
// no refused change is there, and of the changes that were made together all are there or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::IsEmpty;

// The state of a session, as far as a test knows it. `maybe`: the row if the last change, whose
// outcome is unknown, was made. A session without a row does not exist.
struct Known {
  std::optional<SessionRow> row;
  std::optional<std::optional<SessionRow>> maybe;
  uint64_t last_turn = 0;
  TurnNumber running = kNoTurn;
};

class PowerLossTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kSessions = 6;

  void Open() {
    auto store = SqliteStore::Open(directory_.string(), {.vfs = disk_.name()});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // A random change of the session, and the row that it should leave.
  std::pair<Change, std::optional<SessionRow>> Draw(uint64_t id) {
    Known& known = known_[id];
    if (!known.row) return {OpenSession{NewSession(id)}, NewSession(id)};
    if (random_() % 10 == 0) return {OpenSession{NewSession(id)}, known.row};  // refused
    SessionRow next = *known.row;
    const Fence fence = {next.key, next.epoch, next.version};
    ++next.version;
    const uint64_t kind = random_() % 10;
    if (kind == 0) return {CloseSession{next.key, fence, At(2)}, std::nullopt};
    if (kind == 1) {
      next.head = kNoTurn;
      next.position = 0;
      return {MoveHead{fence, kNoTurn, next.last_use_time}, next};
    }
    if (known.running == kNoTurn) {
      next.last_use_time = At(1);
      const std::string request(random_() % 20000, 'r');
      return {StartTurn{fence, NewTurn(++known.last_turn, request)}, next};
    }
    next.head = known.running;
    next.position = random_() % 1000;
    next.last_use_time = At(2);
    return {CommitTurn{.fence = fence,
                       .turn = known.running,
                       .position = next.position,
                       .result = std::string(random_() % 5000, 's'),
                       .now = At(2)},
            next};
  }

  // Applies changes to several sessions in one transaction. Returns false after a failure.
  bool Step() {
    std::vector<Change> changes;
    std::vector<uint64_t> ids;
    std::vector<std::optional<SessionRow>> rows;
    for (uint64_t id = 1; id <= kSessions; ++id) {
      if (random_() % 3 != 0) continue;
      auto [change, row] = Draw(id);
      changes.push_back(std::move(change));
      rows.push_back(std::move(row));
      ids.push_back(id);
    }
    const auto results = store_->Apply(changes);
    bool ok = true;
    for (size_t i = 0; i < ids.size(); ++i) {
      Known& known = known_[ids[i]];
      if (results[i].ok()) {
        known.row = rows[i];
        // kNoTurn unless the turn has just started. A turn that was running when the head moved can
        // no longer be committed.
        known.running = results[i]->turn;
        ++acknowledged_;
      } else if (absl::IsUnknown(results[i].status())) {
        known.maybe = rows[i];
        ok = false;
      } else if (absl::IsAlreadyExists(results[i].status())) {
        EXPECT_EQ(rows[i], known.row);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(results[i].status())) << results[i].status();
        ok = false;
      }
    }
    return ok;
  }

  // Compares the store with what is known.
  void Compare() {
    int made = 0, not_made = 0;  // of the last changes, whose outcome was unknown
    for (auto& [id, known] : known_) {
      const auto stored = store_->Session(NewSession(id).key);
      const bool is_there = stored.ok();
      ASSERT_TRUE(is_there || absl::IsNotFound(stored.status())) << stored.status();
      const auto found = is_there ? std::optional(*stored) : std::nullopt;
      if (known.maybe && *known.maybe != known.row) {
        ++(found == *known.maybe ? made : not_made);
        if (found == *known.maybe) known.row = found;
      }
      ASSERT_TRUE(found == known.row) << "session " << id;
      ASSERT_TRUE(!found || found->head == kNoTurn || store_->Turn(found->head).ok());
      known.maybe.reset();
      known.running = kNoTurn;  // a turn that was running when the power failed stays started
    }
    EXPECT_TRUE(made == 0 || not_made == 0) << made << " made, " << not_made << " not";
    (made > 0 ? made_though_unknown_ : not_made_) += made > 0 || not_made > 0 ? 1 : 0;
    EXPECT_THAT(*store_->Check(10), IsEmpty());
  }

  const TemporaryDirectory directory_;  // for the lock; all other files are on the disk
  FaultyDisk disk_;
  std::mt19937_64 random_{GetParam()};
  std::unique_ptr<SqliteStore> store_;
  std::map<uint64_t, Known> known_;
  uint64_t acknowledged_ = 0;
  int made_though_unknown_ = 0;  // groups of changes
  int not_made_ = 0;
};

TEST_P(PowerLossTest, NothingThatWasAcknowledgedIsLost) {
  for (int round = 0; round < 60; ++round) {
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(Compare()) << "round " << round;
    const uint64_t fault = random_() % 8;
    if (fault == 0) disk_.SetFsyncFails("-wal");
    if (fault == 1) disk_.SetFsyncFails("log.db");
    if (fault > 1) disk_.FailAfter(random_() % 150);
    // A checkpoint, where the fsync of log.db fails, comes after about 100 steps.
    for (int steps = 0; Step(); ++steps) ASSERT_LT(steps, 2000) << "nothing has failed";
    store_.reset();
    // Without a loss of power, the system still holds the bytes that a failed fsync did not write.
    if (fault > 1) disk_.LosePower(random_);
    disk_.SetFsyncFails(std::nullopt);
  }
  RecordProperty("acknowledged", static_cast<int>(acknowledged_));
  EXPECT_GT(acknowledged_, 200u);
  EXPECT_GT(made_though_unknown_ + not_made_, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerLossTest, testing::Range(uint64_t{1}, kEndOfSeeds));

}  // namespace
}  // namespace longstream::store
