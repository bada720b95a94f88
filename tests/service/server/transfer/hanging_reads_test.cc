// The disk hangs while a turn reads its session from the store: the turn ends in time, and other
// turns with long texts have their thread.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/server/held_turns.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/retry_seconds.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/serving/without_patience.h"
#include "tests/service/sessions/store/held_store.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using grpc::StatusCode;

constexpr size_t kLongText = size_t{17} << 10;

// A store whose reads can hang. It is there before the server and after it.
class HangingStore {
 protected:
  std::unique_ptr<store::SessionStore> OpenStore() const {
    auto store = store::SqliteStore::Open(directory_.string() + "/store", {});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void HangReads() { store_.Hold(); }
  void FailReads(const absl::Status& failure) { store_.FailReads(failure); }
  void GoOn() {
    store_.Release();
    store_.FailReads(absl::OkStatus());
  }
  bool HoldsUp() const { return store_.calls_waiting() > 0; }
  SessionManager::Options Options() {
    SessionManager::Options options;
    options.store = &store_;
    options.commits = &commits_;
    options.commit_timeout = absl::Hours(1);  // see WithoutPatience
    return options;
  }

 private:
  const TemporaryDirectory directory_;
  store::HeldStore store_{OpenStore()};
  store::CommitQueue commits_{&store_, store::CommitQueue::Options{}};
};

class HangingReadsTest : private HangingStore, public ServerTest {
 protected:
  HangingReadsTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens, "", 0,
                   Options()) {}
  // The server ends when its reads have ended.
  ~HangingReadsTest() override { GoOn(); }

  grpc::Status Generate(const std::string& session, const std::string& turn = "") {
    v1::GenerateRequest request = Request(session);
    request.set_turn_id(turn);
    request.mutable_input()->set_text(std::string(kLongText, 'x'));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    const auto reader = turns_.stub().Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  grpc::Status Append(const std::string& session, const std::string& turn = "",
                      size_t bytes = kLongText) {
    return Append(turns_, session, turn, bytes);
  }
  static grpc::Status Append(HeldTurns& turns, const std::string& session, const std::string& turn,
                             size_t bytes = kLongText) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    v1::AppendResponse response;
    const auto writer = turns.stub().Append(&context, &response);
    v1::AppendRequest request;
    request.set_session_id(session);
    request.set_turn_id(turn);
    request.mutable_input()->set_text(std::string(bytes, 'x'));
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }
  // Makes a call that waits for the store, and ends in time.
  void ExpectLate(const std::function<grpc::Status()>& call) {
    const grpc::Status status = WithoutPatience(
        restarted_.timers(), [this] { return HoldsUp(); }, call);
    ExpectLateAnswer(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  using HangingStore::FailReads;
  using HangingStore::GoOn;
  using HangingStore::HangReads;
  using HangingStore::Options;

  // Knows the sessions of sessions() only from the store, as a server after its start.
  SessionManager restarted_{&models(), Options()};
  HeldTurns turns_{&restarted_, kLongText, std::numeric_limits<uint64_t>::max()};
};

TEST_F(HangingReadsTest, TurnsOfStoredSessionsHoldNoThreadForTexts) {
  const std::string stored = Open();
  turns_.Release();
  const absl::StatusOr<SessionView> in_memory = WaitForSession([&](SessionManager::Opened opened) {
    restarted_.OpenSession("", "m", std::nullopt, std::nullopt, std::move(opened),
                           {.durability = Durability::kMemory});
  });
  ASSERT_TRUE(in_memory.ok()) << in_memory.status();
  HangReads();
  ExpectLate([&] { return Generate(stored); });
  ExpectLate([&] { return Append(stored); });
  const grpc::Status other = Generate(in_memory->id.ToString());
  EXPECT_TRUE(other.ok()) << other.error_message();
  GoOn();
  grpc::Status repeated;
  ASSERT_TRUE(WaitUntil([&] {
    repeated = Append(stored);
    return repeated.error_code() != StatusCode::UNAVAILABLE;
  }));
  EXPECT_TRUE(repeated.ok()) << repeated.error_message();
}

// The session is in memory, and the server must look for the turn in the store.
TEST_F(HangingReadsTest, TurnsWithAnIdHoldNoThreadForTexts) {
  const std::string turn(32, 'a');
  const std::string append(32, 'b');
  const std::string stored = Open();
  turns_.Release();
  ASSERT_TRUE(Append(stored, "", 1).ok());
  HangReads();
  ExpectLate([&] { return Generate(stored, turn); });
  ExpectLate([&] { return Append(stored, append); });
  const grpc::Status other = Generate(stored);
  EXPECT_TRUE(other.ok()) << other.error_message();
  GoOn();
  for (int i = 0; i < 2; ++i) {
    const grpc::Status generated = Generate(stored, turn);
    EXPECT_TRUE(generated.ok()) << generated.error_message();
    const grpc::Status appended = Append(stored, append);
    EXPECT_TRUE(appended.ok()) << appended.error_message();
  }
}

// The turns are in memory, and their answers in the store.
TEST_F(HangingReadsTest, RepeatedTurnsHoldNoThreadForTexts) {
  const std::string turn(32, 'a');
  const std::string append(32, 'b');
  const std::string stored = Open();
  turns_.Release();
  ASSERT_TRUE(Generate(stored, turn).ok());
  ASSERT_TRUE(Append(stored, append).ok());
  HangReads();
  ExpectLate([&] { return Generate(stored, turn); });
  ExpectLate([&] { return Append(stored, append); });
  const grpc::Status other = Generate(stored);
  EXPECT_TRUE(other.ok()) << other.error_message();
}

TEST_F(HangingReadsTest, ARepeatedAppendIsKnownToAServerThatReadsItFromTheStore) {
  const std::string append(32, 'b');
  const std::string stored = Open();
  turns_.Release();
  ASSERT_TRUE(Append(stored, append).ok());
  SessionManager later(&models(), Options());
  HeldTurns after(&later, kLongText, std::numeric_limits<uint64_t>::max());
  after.Release();
  const grpc::Status repeated = Append(after, stored, append);
  EXPECT_TRUE(repeated.ok()) << repeated.error_message();
  EXPECT_EQ(Append(after, stored, append, kLongText + 1).error_code(), StatusCode::ALREADY_EXISTS);
}

// A list without the sessions of the store would look like that of a client that has none.
TEST_F(HangingReadsTest, AListIsUnavailableIfTheStoreCannotBeRead) {
  Open();
  FailReads(absl::UnavailableError("the database is down"));
  const auto list = [&] {
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    const grpc::Status status = stub().ListSessions(&context, {}, &response);
    EXPECT_EQ(response.sessions_size(), status.ok() ? 1 : 0);
    return status;
  };
  const grpc::Status status = list();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the database is down");
  EXPECT_EQ(RetrySeconds(status), 0.5);
  GoOn();
  EXPECT_TRUE(list().ok());
}

}  // namespace
}  // namespace longstream
