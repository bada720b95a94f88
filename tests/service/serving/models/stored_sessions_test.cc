// Sessions in the store outlive the models that serve them.
#include <filesystem>

#include "tests/service/serving/models/admin_fixture.h"
#include "tests/service/sessions/store/faulty_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

class StoredModelTest : public ModelAdminTest {
 protected:
  StoredModelTest() : ModelAdminTest({.has_store = true}) {}
};

TEST_F(StoredModelTest, SessionsGoOnWhenTheModelIsThereAgain) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a"), session = Open("a"), closed = Open("a");
  const std::vector<int32_t> first = Turn(undisturbed, "hello", 20).tokens;
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  EXPECT_EQ(Turn(session, "hello", 20).tokens, first);
  ASSERT_TRUE(Unload("a").ok());

  const absl::StatusOr<SessionView> view = sessions_->View({"", session});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->position, 25u);
  EXPECT_EQ(sessions_->List("", std::nullopt, 10, "").size(), 3u);
  EXPECT_TRUE(Close(closed).ok());
  EXPECT_TRUE(absl::IsNotFound(sessions_->View({"", closed}).status()));
  const absl::Status refused = Turn(session, "more", 20).end.status;
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("model a, which the server does not serve now"));

  ASSERT_TRUE(Load(Model("a", "other")).ok());
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, second);
}

TEST_F(StoredModelTest, ASessionReturnsToTheVersionThatComputedIt) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a");
  Turn(undisturbed, "hello", 20);
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  const absl::StatusOr<SessionView> session = TryOpen("a", absl::Milliseconds(300));
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(Turn(session->id, "hello", 20).end.status.ok());
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  // The session leaves memory; the other one keeps the version.
  EXPECT_TRUE(
      WaitUntil([&] { return sessions_->NumSessionsOn(*models_->ListVersions()[1].engine) == 1; }));
  const Answer more = Turn(session->id, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, second);
}

TEST_F(StoredModelTest, SessionsMoveToTheNewVersion) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a"), session = Open("a");
  Turn(undisturbed, "hello", 20);
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  Turn(session, "hello", 20);
  ModelAdmin::Moving moving;
  moving.recompute_sessions = true;
  ASSERT_TRUE(Swap(Model("a", "other"), moving).ok());
  EXPECT_TRUE(WaitUntil([&] { return Versions() == std::vector<std::string>{"a 2 2"}; }));
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, second);
}

// A disk that waits while caches are read from it.
struct WaitingDisk {
  ~WaitingDisk() { GoOn(); }
  void WaitInReads() {
    disk.SetBeforeRead([this](const std::string&) {
      if (!reads.HasBeenNotified()) reads.Notify();
      go_on.WaitForNotification();
      return absl::OkStatus();
    });
  }
  void GoOn() {
    disk.SetBeforeRead(nullptr);
    if (!go_on.HasBeenNotified()) go_on.Notify();
  }

  store::FaultyDirectory disk;
  absl::Notification reads, go_on;
};

class RestoringModelTest : public WaitingDisk, public ModelAdminTest {
 protected:
  RestoringModelTest() : ModelAdminTest(With(&disk)) {
    std::filesystem::create_directory(roots_.path() / "dense");
    const std::filesystem::path dense = LONGSTREAM_SOURCE_DIR "/models/demo/dense";
    for (const auto& file : std::filesystem::directory_iterator(dense)) {
      std::filesystem::create_symlink(file.path(),
                                      roots_.path() / "dense" / file.path().filename());
    }
  }
  ~RestoringModelTest() override {
    GoOn();
    Stop();
  }

  static Options With(store::FaultyDirectory* disk) {
    Options options;
    options.plugin = LONGSTREAM_BINARY_DIR "/plugins/dense.cpu.so";
    options.has_store = true;
    options.store.segments = [disk] { return disk->View(); };
    options.engine.least_restore_limit = absl::Hours(1);
    return options;
  }
};

TEST_F(RestoringModelTest, UnloadsWhileCachesAreRead) {
  ASSERT_TRUE(Load(Model("a", "dense")).ok());
  const SessionId session = Open("a");
  ASSERT_TRUE(Turn(session, std::string(400, 'x'), 4).end.status.ok());
  EXPECT_TRUE(WaitUntil([&] {
    const absl::StatusOr<store::SessionRow> row = store_->Session({"", session});
    const auto saved = store_->Snapshots(row->head, 10);
    return saved.ok() && !saved->empty();
  }));
  ASSERT_TRUE(Unload("a").ok());
  ASSERT_TRUE(Load(Model("a", "dense")).ok());
  WaitInReads();
  const absl::StatusOr<TurnHandle> handle = Begin(session, "more", 4);
  ASSERT_TRUE(handle.ok()) << handle.status();
  reads.WaitForNotification();
  ASSERT_TRUE(Unload("a", absl::ZeroDuration()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Read(*handle).end.status));
}

}  // namespace
}  // namespace longstream
