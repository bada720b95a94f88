// Health tells whether changes can be made, also when nobody makes one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/service/sessions/postgres_store/postgres_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream::store {
namespace {

using testing::HasSubstr;

class PostgresHealthTest : public PostgresStoreTest {
 protected:
  // All writes to `table` fail with this code, and each takes a number from the sequence `tries`.
  void RefuseWrites(const std::string& table, const std::string& code) {
    Sql("CREATE SEQUENCE longstream.tries;"
        "CREATE FUNCTION longstream.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM nextval('longstream.tries'); RAISE SQLSTATE '" +
        code +
        "'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON longstream." +
        table + " FOR EACH ROW EXECUTE FUNCTION longstream.refuse()");
  }
  int Tries() { return std::stoi(Sql("SELECT last_value FROM longstream.tries")); }
};

// The store has time for several tries to come back.
void ExpectStays(const PostgresStore& store, StoreState state) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(store.Health().state, state);
    absl::SleepFor(absl::Milliseconds(2));
  }
}

TEST_F(PostgresHealthTest, AFullDiskThatHasRoomAgainIsFoundWithoutChanges) {
  const auto store = Open();
  RefuseWrites("writers", "53100");
  EXPECT_EQ(ApplyOne(*store, OpenSession{NewSession(7)}).status().code(),
            absl::StatusCode::kResourceExhausted);
  const int before = Tries();
  EXPECT_TRUE(WaitUntil([&] { return Tries() >= before + 2; })) << "the store tries to write";
  EXPECT_EQ(store->Health().state, StoreState::kFull);
  Sql("DROP TRIGGER refuse ON longstream.writers");
  EXPECT_TRUE(WaitUntil([&] { return store->Health().state == StoreState::kOk; }));
}

TEST_F(PostgresHealthTest, ALimitOfPostgresIsNotAFullDisk) {
  const auto store = Open();
  RefuseWrites("sessions", "54000");
  EXPECT_EQ(ApplyOne(*store, OpenSession{NewSession(7)}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Health().state, StoreState::kOk);
}

TEST_F(PostgresHealthTest, WithoutTheRightToWriteTheStoreIsNotOk) {
  const std::string owner = MakeOwner();
  const auto store = OpenUrl(UrlAs(owner));
  ASSERT_TRUE(store.ok()) << store.status();
  Sql("REVOKE INSERT ON longstream.sessions FROM " + owner);
  const auto refused = ApplyOne(**store, OpenSession{NewSession(7)});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_THAT((*store)->Health().reason, HasSubstr("42501"));
  ExpectStays(**store, StoreState::kUnreachable);
  Sql("GRANT INSERT ON longstream.sessions TO " + owner);
  EXPECT_TRUE(WaitUntil([&] { return (*store)->Health().state == StoreState::kOk; }));
  EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
}

TEST_F(PostgresHealthTest, AnotherStoreInTheDatabaseIsNotUsed) {
  const auto store = Open(absl::Seconds(1));
  const std::string id = *store->Id();
  Sql("UPDATE longstream.store SET id = '\\x00112233445566778899aabbccddeeff'");
  Sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
      " WHERE pid <> pg_backend_pid() AND datname = '" +
      database_ + "'");
  uint64_t session = 100;
  EXPECT_TRUE(
      WaitUntil([&] { return !ApplyOne(*store, OpenSession{NewSession(++session)}).ok(); }));
  EXPECT_THAT(store->Health().reason, HasSubstr("another store"));
  ExpectStays(*store, StoreState::kUnreachable);
  Sql("UPDATE longstream.store SET id = '\\x" + id + "'");
  EXPECT_TRUE(WaitUntil([&] { return store->Health().state == StoreState::kOk; }));
  EXPECT_TRUE(ApplyOne(*store, OpenSession{NewSession(8)}).ok());
}

}  // namespace
}  // namespace longstream::store
