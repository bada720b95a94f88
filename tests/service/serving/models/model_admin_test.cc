// Models that are loaded, swapped and unloaded while sessions use them.
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/api/path_options.h"
#include "tests/service/serving/models/admin_fixture.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSlowOpen[] = LONGSTREAM_BINARY_DIR "/test_plugins/slow_open.so";

// ---------------------------------------------------------------- load

TEST_F(ModelAdminTest, LoadsWarmsUpAndServes) {
  EXPECT_TRUE(absl::IsNotFound(TryOpen("a").status()));
  const std::shared_ptr<Loaded> loaded = BeginLoad(Model("a"));
  loaded->done.WaitForNotification();
  ASSERT_TRUE(loaded->result.ok()) << loaded->result.status();
  EXPECT_THAT(loaded->states, ElementsAre(ModelState::kLoading, ModelState::kWarming));
  EXPECT_EQ(loaded->result->state, ModelState::kReady);
  EXPECT_THAT(Versions(), ElementsAre("a 1 2"));
  const BackendModel& backend = loaded->result->engine->model().backend();
  EXPECT_EQ(backend.memory().states, 0u) << "nothing is left of the warm-up";
  EXPECT_EQ(backend.memory().reserved, 0u);
  EXPECT_EQ(Turn(Open("a"), "hello", 10).tokens.size(), 10u);
  EXPECT_GT(backend.memory().states, 0u) << "the session's";
  EXPECT_GT(SeriesOf("model", "a"), 0u);
}

TEST_F(ModelAdminTest, ANameIsNeverAPath) {
  std::filesystem::create_directory_symlink(minimal_.directory(), roots_.path() / "link");
  std::ofstream(roots_.path() / "file") << "x";
  for (const char* directory :
       {"../tiny", "tiny/", "/tiny", "..", ".", "a/b", ".hidden", "a b", "tiny\n", "t\xc3\xafny"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Load(Model("a", directory)))) << directory;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Load(Model("a", std::string(129, 'a')))));
  EXPECT_TRUE(absl::IsInvalidArgument(Load(Model("a/b"))));
  EXPECT_TRUE(absl::IsInvalidArgument(Load(Model(""))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(Model("a", "link"))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(Model("a", "file"))));
  EXPECT_TRUE(absl::IsNotFound(Load(Model("a", "missing"))));
  EXPECT_THAT(Versions(), IsEmpty());
}

TEST_F(ModelAdminTest, OptionsOfACallHaveNoPaths) {
  ASSERT_TRUE(Load(Model("b")).ok());
  for (const std::string_view option : kPathOptions) {
    for (const char* path : {"/etc", "../../x", "auto"}) {
      ModelAdmin::Wanted wanted = Model("a");
      wanted.options_json = absl::StrCat("{\"", std::string(option), "\": \"", path, "\"}");
      const absl::Status refused = Load(wanted);
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("options: ", std::string(option))));
      wanted.name = "b";
      EXPECT_TRUE(absl::IsInvalidArgument(Swap(wanted)));
    }
  }
  for (const char* json : {"[]", "{", "{\"a\": NaN}"}) {
    ModelAdmin::Wanted wanted = Model("a");
    wanted.options_json = json;
    EXPECT_TRUE(absl::IsInvalidArgument(Load(wanted))) << json;
  }
  EXPECT_THAT(Versions(), ElementsAre("b 1 2"));
}

TEST_F(ModelAdminTest, ABrokenCheckpointLeavesTheNamesAsTheyWere) {
  ASSERT_TRUE(Load(Model("a")).ok());
  AddDirectory("broken");
  std::ofstream(roots_.path() / "broken" / "config.json") << R"({"model_type": "unknown"})";
  const absl::Status failed = Load(Model("b", "broken"));
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(failed.message(), HasSubstr("model b: "));
  EXPECT_FALSE(Swap(Model("a", "broken")).ok());
  EXPECT_THAT(Versions(), ElementsAre("a 1 2"));
  EXPECT_TRUE(absl::IsNotFound(TryOpen("b").status()));
  EXPECT_EQ(SeriesOf("model", "b"), 0u);
  EXPECT_EQ(Turn(Open("a"), "hello", 10).tokens.size(), 10u);
  EXPECT_TRUE(Load(Model("b")).ok()) << "the name is free";
}

TEST_F(ModelAdminTest, AModelThatCannotComputeIsNotServed) {
  ModelAdmin::Wanted wanted = Model("a");
  wanted.options_json = R"({"lose_device_at_position": 3})";
  EXPECT_TRUE(absl::IsUnavailable(Load(wanted)));
  EXPECT_THAT(Versions(), IsEmpty());
}

TEST_F(ModelAdminTest, ANameIsLoadedOnce) {
  std::vector<std::shared_ptr<Loaded>> loads;
  for (int i = 0; i < 4; ++i) loads.push_back(BeginLoad(Model("a")));
  int loaded = 0;
  for (const std::shared_ptr<Loaded>& load : loads) {
    load->done.WaitForNotification();
    const absl::Status status = load->result.status();
    loaded += status.ok() ? 1 : 0;
    EXPECT_TRUE(status.ok() || absl::IsAborted(status) || absl::IsAlreadyExists(status)) << status;
  }
  EXPECT_EQ(loaded, 1);
  EXPECT_TRUE(absl::IsAlreadyExists(Load(Model("a"))));
}

// ---------------------------------------------------------------- unload

TEST_F(ModelAdminTest, UnloadingFreesEverything) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("b")).ok());
  const SessionId session = Open("a");
  EXPECT_TRUE(Turn(session, "hello", 10).end.status.ok());
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_TRUE(engine->model().backend().closed());
  EXPECT_THAT(Versions(), ElementsAre("b 1 2"));
  EXPECT_EQ(SeriesOf("model", "a"), 0u);
  EXPECT_GT(SeriesOf("model", "b"), 0u);
  EXPECT_TRUE(absl::IsNotFound(TryOpen("a").status()));
  const absl::Status gone = Turn(session, "more", 5).end.status;
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_THAT(gone.message(), HasSubstr("ended when its model a was unloaded"));
  const SessionKey key = {"", session};
  EXPECT_EQ(sessions_->View(key).status(), gone);
  uint64_t next = 0;
  EXPECT_EQ(sessions_->ListTurns(key, 0, 10, &next).status(), gone);
  EXPECT_EQ(TryFork(session).status(), gone);
  EXPECT_EQ(RewindTo(session, 0).status(), gone);
  EXPECT_EQ(Close(session), gone);
  EXPECT_EQ(models_->host_memory()->held_bytes(), 0u);
  EXPECT_TRUE(absl::IsNotFound(Unload("a")));
  EXPECT_LT(Unload(std::string(100'000, 'a')).message().size(), 200u);

  ASSERT_TRUE(Load(Model("a")).ok()) << "it can be loaded again";
  const absl::StatusOr<SessionView> anew = WaitForSession([&](SessionManager::Opened opened) {
    sessions_->OpenSession("", "a", session, std::nullopt, std::move(opened));
  });
  ASSERT_TRUE(anew.ok()) << anew.status();
  ASSERT_TRUE(Close(session).ok());
  EXPECT_EQ(sessions_->TurnOf({"", session}).status(), NoSession(session)) << "its model is there";
  EXPECT_EQ(Turn(Open("a"), "hello", 10).tokens.size(), 10u);
}

TEST_F(ModelAdminTest, CallsThatStillHoldTheModelFail) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const SessionId session = Open("a");
  absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", session});
  ASSERT_TRUE(turn.ok());
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_FALSE(turn->Lease().ok());
  TurnLease late = TurnLease::OfNewSession(SessionId{7, 7}, "a", 100, absl::Hours(1));
  absl::Status opened;
  engine->Open(std::move(late), [&](const absl::Status& status) { opened = status; });
  EXPECT_TRUE(absl::IsFailedPrecondition(opened)) << "the callback runs at once: " << opened;
  TurnLease closed = TurnLease::OfNewSession(SessionId{7, 8}, "a", 100, absl::Hours(1));
  closed.session()->Close();
  absl::Status rewound;
  engine->Rewind(std::move(closed), {}, "", [&](const absl::Status& status) { rewound = status; });
  EXPECT_TRUE(absl::IsFailedPrecondition(rewound)) << rewound;
  engine->Flush();
  EXPECT_EQ(engine->model().tokenizer().kind(), "byte") << "readers still use the tokenizer";
}

TEST_F(ModelAdminTest, RunningTurnsEndBeforeTheModelGoes) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  const absl::StatusOr<TurnHandle> handle = Begin(session, "hello", 2000);
  ASSERT_TRUE(handle.ok());
  const std::shared_ptr<Unloaded> unloaded = BeginUnload("a");
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen("a").status()));
  const Answer answer = Read(*handle);
  EXPECT_TRUE(answer.end.status.ok()) << answer.end.status;
  EXPECT_EQ(answer.tokens.size(), 2000u);
  unloaded->done.WaitForNotification();
  EXPECT_TRUE(unloaded->status.ok()) << unloaded->status;
}

TEST_F(ModelAdminTest, AReaderThatDoesNotReadHoldsNoModel) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const SessionId session = Open("a");
  // The turn pauses when its stream is full.
  const absl::StatusOr<TurnHandle> handle = Begin(session, "hello", 100'000);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(Unload("a", absl::ZeroDuration()).ok());
  EXPECT_TRUE(engine->model().backend().closed());
  const Answer answer = Read(*handle);
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.end.status)) << answer.end.status;
  EXPECT_THAT(answer.end.status.message(), HasSubstr("unloaded"));
}

TEST_F(ModelAdminTest, TwoUnloadsOfAName) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const absl::StatusOr<TurnHandle> handle = Begin(Open("a"), "hello", 100'000);
  ASSERT_TRUE(handle.ok());
  const std::shared_ptr<Unloaded> first = BeginUnload("a");
  EXPECT_TRUE(absl::IsAborted(Unload("a")));
  EXPECT_TRUE(absl::IsAborted(Load(Model("a"))));
  EXPECT_TRUE(absl::IsAborted(Swap(Model("a"))));
  TurnHandle(*handle).Cancel();
  first->done.WaitForNotification();
  EXPECT_TRUE(first->status.ok());
}

// ---------------------------------------------------------------- swap

TEST_F(ModelAdminTest, SessionsFinishOnTheirVersion) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a"), old = Open("a");
  const std::vector<int32_t> first = Turn(undisturbed, "hello", 20).tokens;
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  EXPECT_EQ(Turn(old, "hello", 20).tokens, first);
  ASSERT_TRUE(Close(undisturbed).ok());
  ASSERT_TRUE(Swap(Model("a", "other")).ok());
  EXPECT_THAT(Versions(), ElementsAre("a 2 2", "a 1 3"));
  const SessionId fresh = Open("a");
  const Answer more = Turn(old, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, second);
  EXPECT_EQ(more.end.usage.recomputed_tokens, 0u);
  EXPECT_EQ(Turn(fresh, "hello", 20).tokens, first);
  EXPECT_GT(SeriesOf("version", "1"), 0u);
  ASSERT_TRUE(Close(old).ok());
  EXPECT_TRUE(WaitUntil([&] { return Versions() == std::vector<std::string>{"a 2 2"}; }));
  EXPECT_EQ(SeriesOf("version", "1"), 0u);
  EXPECT_EQ(Turn(fresh, "more", 20).tokens, second);
}

TEST_F(ModelAdminTest, EachSessionHasTheWeightsOfItsVersion) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("b", "seeded")).ok());
  const SessionId of_tiny = Open("a"), of_seeded = Open("b"), old = Open("a");
  const std::vector<int32_t> tiny = Turn(of_tiny, "hello", 50).tokens;
  const std::vector<int32_t> seeded = Turn(of_seeded, "hello", 50).tokens;
  ASSERT_NE(tiny, seeded);
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  EXPECT_EQ(Turn(Open("a"), "hello", 50).tokens, seeded);
  EXPECT_EQ(Turn(old, "hello", 50).tokens, tiny);
}

TEST_F(ModelAdminTest, EightStreamsDoNotNoticeASwap) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a");
  const std::vector<int32_t> expected = Turn(undisturbed, "hello", 200).tokens;
  ASSERT_TRUE(Close(undisturbed).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  std::vector<std::thread> streams;
  for (int i = 0; i < 8; ++i) {
    streams.emplace_back([&] {
      while (!stop) {
        const SessionId session = Open("a");
        const Answer answer = Turn(session, "hello", 200);
        EXPECT_TRUE(answer.end.status.ok()) << answer.end.status;
        EXPECT_EQ(answer.tokens, expected);
        EXPECT_TRUE(Close(session).ok());
        ++turns;
      }
    });
  }
  for (int swap = 0; swap < 3; ++swap) {
    const int before = turns;
    EXPECT_TRUE(WaitUntil([&] { return turns > before + 8; }));
    EXPECT_TRUE(Swap(Model("a", swap % 2 == 0 ? "other" : "tiny")).ok());
  }
  const int before = turns;
  EXPECT_TRUE(WaitUntil([&] { return turns > before + 8; }));
  stop = true;
  for (std::thread& stream : streams) stream.join();
  EXPECT_TRUE(WaitUntil([&] { return Versions() == std::vector<std::string>{"a 4 2"}; }));
}

TEST_F(ModelAdminTest, SessionsMoveToTheNewVersion) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId undisturbed = Open("a"), idle = Open("a"), busy = Open("a");
  const std::vector<int32_t> first = Turn(undisturbed, "hello", 20).tokens;
  const std::vector<int32_t> second = Turn(undisturbed, "more", 20).tokens;
  ASSERT_TRUE(Close(undisturbed).ok());
  Turn(idle, "hello", 20);
  const absl::StatusOr<TurnHandle> running = Begin(busy, "hello", 3000);
  ASSERT_TRUE(running.ok());
  ModelAdmin::Moving moving;
  moving.recompute_sessions = true;
  ASSERT_TRUE(Swap(Model("a", "other"), moving).ok());
  EXPECT_EQ(Read(*running).tokens.size(), 3000u) << "a turn ends where it began";
  EXPECT_TRUE(WaitUntil([&] { return Versions() == std::vector<std::string>{"a 2 2"}; }));
  const Answer more = Turn(idle, "more", 20);
  EXPECT_EQ(more.tokens, second);
  EXPECT_GT(more.end.usage.recomputed_tokens, 0u);
  EXPECT_THAT(more.end.usage.recompute_reason, HasSubstr("another version"));
  EXPECT_TRUE(Turn(busy, "more", 20).end.status.ok());
}

TEST_F(ModelAdminTest, TheEarlierVersionGoesAfterItsTime) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId old = Open("a");
  ModelAdmin::Moving moving;
  moving.drain_timeout = absl::ZeroDuration();
  ASSERT_TRUE(Swap(Model("a", "other"), moving).ok());
  EXPECT_TRUE(WaitUntil([&] { return Versions() == std::vector<std::string>{"a 2 2"}; }));
  EXPECT_TRUE(absl::IsNotFound(Turn(old, "more", 5).end.status));
}

TEST_F(ModelAdminTest, UnloadingTakesAllVersions) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId old = Open("a");
  ASSERT_TRUE(Swap(Model("a")).ok());
  const SessionId fresh = Open("a");
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_THAT(Versions(), IsEmpty());
  EXPECT_EQ(SeriesOf("model", "a"), 0u);
  for (const SessionId& session : {old, fresh}) {
    EXPECT_TRUE(absl::IsNotFound(Turn(session, "more", 5).end.status));
  }
}

TEST_F(ModelAdminTest, VersionsHaveDifferentLabels) {
  EXPECT_TRUE(absl::IsNotFound(Swap(Model("a"))));
  ModelAdmin::Wanted wanted = Model("a");
  wanted.version = "blue";
  ASSERT_TRUE(Load(wanted).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Swap(wanted)));
  wanted.version = "green/";
  EXPECT_TRUE(absl::IsInvalidArgument(Swap(wanted)));
  wanted.version.clear();
  ASSERT_TRUE(Swap(wanted).ok());
  EXPECT_EQ((*models_->Find("a"))->model().source().version, "2");
}

// ---------------------------------------------------------------- the end of the server

TEST_F(ModelAdminTest, NothingMovesOrGoesAfterTheEnd) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::shared_ptr<Engine> first = *models_->Find("a");
  const SessionId session = Open("a");
  const absl::StatusOr<TurnHandle> handle = Begin(session, "hello", 100'000);
  ASSERT_TRUE(handle.ok());
  ModelAdmin::Moving moving;
  moving.recompute_sessions = true;
  ASSERT_TRUE(Swap(Model("a", "other"), moving).ok());
  const std::shared_ptr<Unloaded> unloaded = BeginUnload("a");
  admin_->Stop();
  ASSERT_TRUE(unloaded->done.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(unloaded->status)) << unloaded->status;
  EXPECT_EQ(sessions_->NumSessionsOn(*first), 1u);
  EXPECT_TRUE(absl::IsUnavailable(Load(Model("b")))) << "later operations";
  TurnHandle(*handle).Cancel();
}

class SlowModelAdminTest : public ModelAdminTest {
 protected:
  SlowModelAdminTest() : ModelAdminTest({.plugin = kSlowOpen}) {
    EXPECT_EQ(mkfifo(gate_.c_str(), 0600), 0);
  }
  // Lets the model finish loading.
  void OpenGate() { std::ofstream(gate_) << "{}"; }

  const std::filesystem::path gate_ = roots_.path() / "tiny" / "gate";
};

TEST_F(SlowModelAdminTest, NobodyWaitsForALoad) {
  const std::shared_ptr<Loaded> loading = BeginLoad(Model("a"));
  EXPECT_TRUE(WaitUntil([&] { return !Versions().empty(); }));
  EXPECT_THAT(Versions(), ElementsAre("a 1 0"));
  EXPECT_TRUE(absl::IsUnavailable(TryOpen("a").status()));
  EXPECT_TRUE(absl::IsAborted(Unload("a")));
  EXPECT_TRUE(absl::IsAborted(Swap(Model("a"))));
  const std::shared_ptr<Loaded> queued = BeginLoad(Model("b", "other"));
  OpenGate();
  queued->done.WaitForNotification();
  EXPECT_TRUE(queued->result.ok()) << queued->result.status();
  EXPECT_TRUE(loading->result.ok()) << loading->result.status();
}

TEST_F(SlowModelAdminTest, TheServerStopsDuringALoad) {
  const std::shared_ptr<Loaded> loading = BeginLoad(Model("a"));
  const std::shared_ptr<Loaded> queued = BeginLoad(Model("b", "other"));
  EXPECT_TRUE(WaitUntil([&] { return loading->has_begun.load(); }));
  std::thread stop([this] { Stop(); });
  queued->done.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(queued->result.status())) << queued->result.status();
  OpenGate();
  stop.join();
  ASSERT_TRUE(loading->done.HasBeenNotified());
  EXPECT_TRUE(loading->result.ok()) << loading->result.status();
}

}  // namespace
}  // namespace longstream
