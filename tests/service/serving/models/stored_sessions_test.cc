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
  EXPECT_EQ(sessions_->List("", std::nullopt, 10).sessions.size(), 3u);
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

// The policies for sessions whose model has changed.
class ChangedModelTest : public ModelAdminTest, public testing::WithParamInterface<OnModelChange> {
 protected:
  ChangedModelTest() : ModelAdminTest({.has_store = true, .on_model_change = GetParam()}) {}
};

TEST_P(ChangedModelTest, ASessionReturnsToTheVersionThatComputedIt) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a"), session = Open("a");
  Turn(undisturbed, "hello", 20);
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
  const std::shared_ptr<Engine> first_version = *models_->Find("a");
  std::optional<NewTurn> keeps_version = *sessions_->OwnTurn("", "a");
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  sessions_->EndSessionsOn(*first_version);  // they are only in the store now

  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, second);
  EXPECT_EQ(sessions_->NumSessionsOn(*first_version), 1u);

  sessions_->EndSessionsOn(*first_version);
  keeps_version.reset();
  AwaitVersions({"a 2 2"});
  const Answer last = Turn(session, "last", 20);
  if (GetParam() == OnModelChange::kRefuse) {
    EXPECT_TRUE(absl::IsFailedPrecondition(last.end.status)) << last.end.status;
  } else {
    EXPECT_TRUE(last.end.status.ok()) << last.end.status;
    EXPECT_THAT(last.end.usage.recompute_reason, HasSubstr("have changed"));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ChangedModelTest,
                         testing::Values(OnModelChange::kRefuse, OnModelChange::kRecompute));

TEST_F(StoredModelTest, AListOfTurnsNeedsNoModel) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  for (const char* text : {"one", "two", "three"}) {
    EXPECT_TRUE(Turn(session, text, 5).end.status.ok());
  }
  EXPECT_TRUE(RewindTo(session, 5).ok());
  const auto list = [&](uint64_t begin, size_t limit, uint64_t* next) {
    return sessions_->ListTurns({"", session}, begin, limit, next);
  };
  const auto ends = [](const std::vector<TurnView>& turns) {
    std::vector<std::string> texts;
    for (const TurnView& turn : turns) {
      texts.push_back(turn.id.ToString() + " " + std::to_string(turn.position) + " " +
                      std::to_string(static_cast<int>(turn.state)));
    }
    return texts;
  };
  uint64_t next = 0;
  const absl::StatusOr<std::vector<TurnView>> before = list(0, 10, &next);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->size(), 3u);
  ASSERT_TRUE(Unload("a").ok());

  const absl::StatusOr<std::vector<TurnView>> after = list(0, 10, &next);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(ends(*after), ends(*before));
  EXPECT_EQ(next, 0u);
  const absl::StatusOr<std::vector<TurnView>> page = list(0, 2, &next);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->size(), 2u);
  const absl::StatusOr<std::vector<TurnView>> rest = list(next, 2, &next);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(ends(*rest), std::vector<std::string>{ends(*before)[2]});
  const SessionKey unknown{"", SessionId{1, 1}};
  EXPECT_TRUE(absl::IsNotFound(sessions_->ListTurns(unknown, 0, 10, &next).status()));
}

// A call has restored a session, which leaves memory before the call uses it.
TEST_F(StoredModelTest, CallsFindASessionThatLeavesMemory) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const SessionId session = Open("a");
  EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
  const auto leave_twice = [&] {
    sessions_->EndSessionsOn(*engine);
    restored_ = [&] { sessions_->EndSessionsOn(*engine); };
  };
  leave_twice();
  const absl::StatusOr<SessionView> fork = TryFork(session);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 25u);
  leave_twice();
  const absl::StatusOr<SessionView> rewound = RewindTo(session, 10);
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  EXPECT_EQ(rewound->position, 10u);
  sessions_->EndSessionsOn(*engine);
  EXPECT_TRUE(Close(session).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Session({"", session}).status()));
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
