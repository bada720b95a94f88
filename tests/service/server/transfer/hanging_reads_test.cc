// The disk hangs while a turn reads its session from the store: the turn ends in time, and other
// turns with long texts have their thread.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/server/held_turns.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr size_t kLongText = size_t{17} << 10;

// A store on a disk whose reads can hang. It is there before the server and after it.
class HangingStore {
 protected:
  HangingStore() {
    disk_.SetBeforeRead([this] {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](bool* hangs) { return !*hangs; }, &hangs_));
    });
    auto store = store::SqliteStore::Open(directory_.string() + "/store", {.vfs = disk_.name()});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
  }
  void SetHangs(bool hangs) {
    absl::MutexLock lock(&mutex_);
    hangs_ = hangs;
  }
  SessionManager::Options Options() const {
    SessionManager::Options options;
    options.store = store_.get();
    options.commits = commits_.get();
    options.commit_timeout = absl::Seconds(1);
    return options;
  }

 private:
  absl::Mutex mutex_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  const TemporaryDirectory directory_;
  store::FaultyDisk disk_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
};

class HangingReadsTest : private HangingStore, public ServerTest {
 protected:
  HangingReadsTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens, "", 0,
                   Options()) {}
  // The store can only be closed when the disk works.
  ~HangingReadsTest() override { SetHangs(false); }

  grpc::Status Generate(const std::string& session) {
    v1::GenerateRequest request = Request(session);
    request.mutable_input()->set_text(std::string(kLongText, 'x'));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto reader = turns_.stub().Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  grpc::Status Append(const std::string& session) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::AppendResponse response;
    const auto writer = turns_.stub().Append(&context, &response);
    v1::AppendRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(std::string(kLongText, 'x'));
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }
  void HangReads() { SetHangs(true); }
  void GoOn() { SetHangs(false); }

  // Knows the sessions of sessions() only from the store, as a server after its start.
  SessionManager restarted_{&models(), Options()};
  HeldTurns turns_{&restarted_, kLongText, std::numeric_limits<uint64_t>::max()};
};

TEST_F(HangingReadsTest, TurnsOfStoredSessionsHoldNoThreadForTexts) {
  const std::string stored = Open();
  turns_.Release();
  const absl::StatusOr<SessionView> in_memory = WaitForSession([&](SessionManager::Opened opened) {
    restarted_.OpenSession("", "m", std::nullopt, std::nullopt, std::move(opened),
                           Recompute::kExact, Durability::kMemory);
  });
  ASSERT_TRUE(in_memory.ok()) << in_memory.status();
  HangReads();
  const grpc::Status generate = Generate(stored);
  EXPECT_EQ(generate.error_code(), StatusCode::UNAVAILABLE) << generate.error_message();
  EXPECT_THAT(generate.error_message(), HasSubstr("store.commit_timeout"));
  const grpc::Status append = Append(stored);
  EXPECT_EQ(append.error_code(), StatusCode::UNAVAILABLE) << append.error_message();
  const grpc::Status other = Generate(in_memory->id.ToString());
  EXPECT_TRUE(other.ok()) << other.error_message();
  GoOn();
  grpc::Status repeated;
  ASSERT_TRUE(WaitUntil([&] {
    repeated = Append(stored);
    // ABORTED: the thread that restores the session leases it for a moment after others find it.
    return repeated.error_code() != StatusCode::UNAVAILABLE &&
           repeated.error_code() != StatusCode::ABORTED;
  }));
  EXPECT_TRUE(repeated.ok()) << repeated.error_message();
}

}  // namespace
}  // namespace longstream
