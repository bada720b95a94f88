// Changes that are submitted at about the same time share a transaction.
#include "service/sessions/store/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::HasSubstr;

class CommitQueueTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::unique_ptr<SqliteStore> store_ = *SqliteStore::Open(directory_.string(), {});
};

// While the callback of the first change blocks the queue's thread, the others gather.
TEST_F(CommitQueueTest, ChangesThatWaitShareATransactionAndKeepTheirOrder) {
  std::vector<size_t> sizes;
  absl::Notification go_on;
  std::atomic<uint64_t> answered{0};
  {
    CommitQueue queue(store_.get(),
                      {.on_commit = [&](absl::Span<const absl::StatusOr<Applied>> results,
                                        absl::Duration) { sizes.push_back(results.size()); }});
    queue.Submit(OpenSession{NewSession(1)}, [&](const absl::StatusOr<Applied>& applied) {
      EXPECT_TRUE(applied.ok()) << applied.status();
      go_on.WaitForNotification();
    });
    for (uint64_t version = 1; version <= 50; ++version) {
      const Fence fence = {NewSession(1).key, 1, static_cast<int64_t>(version)};
      queue.Submit(StartTurn{fence, NewTurn(version)},
                   [&, version](const absl::StatusOr<Applied>& applied) {
                     ASSERT_TRUE(applied.ok()) << applied.status();
                     EXPECT_EQ(applied->version, static_cast<int64_t>(version) + 1);
                     EXPECT_EQ(++answered, version);
                   });
    }
    go_on.Notify();
  }
  EXPECT_EQ(answered, 50u) << "the destructor waits";
  EXPECT_LE(sizes.size(), 3u);
}

TEST_F(CommitQueueTest, AChangeBeyondTheLimitIsRefusedAtOnce) {
  CommitQueue queue(store_.get(), {.max_waiting_bytes = 1000, .on_commit = {}});
  bool refused = false;
  queue.Submit(StartTurn{{}, NewTurn(1, std::string(1000, 'x'))},
               [&](const absl::StatusOr<Applied>& applied) {
                 refused = true;
                 EXPECT_EQ(applied.status().code(), absl::StatusCode::kResourceExhausted);
                 EXPECT_THAT(applied.status().message(), HasSubstr("1256 bytes"));
               });
  EXPECT_TRUE(refused);
}

// Submit would block for ever if it waited for the disk.
TEST_F(CommitQueueTest, ASlowDiskHoldsUpNoCaller) {
  FaultyDisk disk;
  const TemporaryDirectory directory;
  const auto store = SqliteStore::Open(directory.string(), {.vfs = disk.name()});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(1)}).ok());
  absl::Notification reached, go_on;
  disk.SetBeforeFsync([&] {
    if (!reached.HasBeenNotified()) reached.Notify();
    go_on.WaitForNotification();
  });
  constexpr uint64_t kMany = 100;
  std::atomic<uint64_t> answered{0};
  const auto count = [&](const absl::StatusOr<Applied>& applied) { answered += applied.ok(); };
  {
    CommitQueue queue(store->get(), {.max_waiting_bytes = 100'000, .on_commit = {}});
    EXPECT_EQ(queue.BusyFor(), absl::ZeroDuration());
    queue.Submit(OpenSession{NewSession(2)}, count);
    reached.WaitForNotification();
    for (uint64_t i = 0; i < kMany; ++i) queue.Submit(OpenSession{NewSession(10 + i)}, count);
    absl::Status refused;
    queue.Submit(StartTurn{{}, NewTurn(1, std::string(100'000, 'x'))},
                 [&](const absl::StatusOr<Applied>& applied) { refused = applied.status(); });
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(refused.message(), HasSubstr("changes that wait may take 100000 bytes"));
    EXPECT_GT(queue.BusyFor(), absl::ZeroDuration());
    EXPECT_TRUE((*store)->Session(NewSession(1).key).ok()) << "reads do not wait";
    EXPECT_EQ((*store)->Session(NewSession(2).key).status().code(), absl::StatusCode::kNotFound)
        << "what is not durable is not read";
    EXPECT_EQ((*store)->Health().state, StoreState::kOk);
    EXPECT_EQ((*store)->Bytes().size(), 3u);
    EXPECT_EQ(answered, 0u);
    go_on.Notify();
  }
  EXPECT_EQ(answered, kMany + 1);
}

TEST_F(CommitQueueTest, ManyThreadsSubmit) {
  constexpr uint64_t kThreads = 8, kSessions = 40;
  std::atomic<uint64_t> ok{0};
  {
    CommitQueue queue(store_.get(), {});
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t i = 0; i < kSessions; ++i) {
          queue.Submit(OpenSession{NewSession(1 + thread * kSessions + i)},
                       [&](const absl::StatusOr<Applied>& applied) { ok += applied.ok() ? 1 : 0; });
        }
      });
    }
  }
  EXPECT_EQ(ok, kThreads * kSessions);
  EXPECT_EQ(store_->Sessions("", {}, 1000, "")->size(), kThreads * kSessions);
}

}  // namespace
}  // namespace longstream::store
