// Sessions whose caches come back from the store go on with the tokens of an undisturbed run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/service/serving/caches/kept_sessions.h"

namespace longstream {
namespace {

constexpr uint64_t kTokens = 40;

std::string Text(int turn) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "turn " + std::to_string(turn) + " word ";
  return text;
}

TestModel Demo(const std::string& name) {
  if (name == "minimal") return {};
  return {LONGSTREAM_BINARY_DIR "/plugins/" + name + ".cpu.so",
          LONGSTREAM_SOURCE_DIR "/models/demo/" + name};
}

class KeptCachesTest : public testing::TestWithParam<std::string> {
 protected:
  // A step of the minimal model takes as long as that of a model which is worth restoring.
  explicit KeptCachesTest(uint64_t cache_bytes = 0)
      : sessions_(Demo(GetParam()), cache_bytes,
                  GetParam() == "minimal" ? R"({"step_delay_us": 200})" : "{}") {}

  bool has_spans() const { return GetParam() != "minimal"; }

  // Runs a turn and waits until its caches are saved.
  KeptTurn RunOne(const SessionId& session, int turn,
                  std::optional<uint64_t> kept_tokens = std::nullopt) {
    const int saves = sessions_.Saves("ok");
    const KeptTurn result = sessions_.Turn(session, Text(turn), kTokens, kept_tokens);
    sessions_.WaitForSaves(saves + 1);
    return result;
  }
  std::vector<KeptTurn> Run(const SessionId& session, int begin, int end) {
    std::vector<KeptTurn> turns;
    for (int turn = begin; turn < end; ++turn) turns.push_back(RunOne(session, turn));
    return turns;
  }
  // The same turns in a session that nothing disturbs.
  std::vector<KeptTurn> Undisturbed(int end) {
    const SessionId session = sessions_.Open();
    return Run(session, 0, end);
  }

  static void ExpectRestored(const KeptTurn& turn, const KeptTurn& undisturbed, uint64_t restored) {
    EXPECT_EQ(turn.tokens, undisturbed.tokens);
    EXPECT_EQ(turn.end.usage.restored_tokens, restored);
    EXPECT_EQ(turn.end.usage.recomputed_tokens, 0u) << turn.end.usage.recompute_reason;
    EXPECT_EQ(turn.end.usage.reused_tokens, 0u);
  }

  KeptSessions sessions_;
};

TEST_P(KeptCachesTest, AreReadAfterARestart) {
  const std::vector<KeptTurn> expected = Undisturbed(4);
  const SessionId session = sessions_.Open();
  Run(session, 0, 2);
  sessions_.Restart();
  const KeptTurn third = Run(session, 2, 3)[0];
  ExpectRestored(third, expected[2], expected[1].end.position - 1);
  EXPECT_EQ(sessions_.Restores("ok"), 1);
  // The snapshot of a session that was restored goes on behind its spans.
  sessions_.Restart();
  ExpectRestored(Run(session, 3, 4)[0], expected[3], expected[2].end.position - 1);
}

TEST_P(KeptCachesTest, OfASessionThatStopsAreSaved) {
  const std::vector<KeptTurn> expected = Undisturbed(2);
  const SessionId session = sessions_.Open();
  sessions_.Turn(session, Text(0), kTokens);
  sessions_.Restart();
  ExpectRestored(sessions_.Turn(session, Text(1), kTokens), expected[1],
                 expected[0].end.position - 1);
}

TEST_P(KeptCachesTest, AreSharedByForksAndEqualBeginnings) {
  const SessionId session = sessions_.Open();
  const std::vector<KeptTurn> turns = Run(session, 0, 2);
  const SessionView fork = sessions_.Fork(session);
  Run(fork.id, 2, 3);
  const SessionId equal = sessions_.Open();
  Run(equal, 0, 2);
  const auto of_session = sessions_.Snapshots(session);
  const auto of_fork = sessions_.Snapshots(fork.id);
  const auto of_equal = sessions_.Snapshots(equal);
  ASSERT_EQ(of_session.size(), 2u);
  ASSERT_EQ(of_fork.size(), 3u);
  EXPECT_EQ(of_fork[1], of_session[0]) << "a fork has the turns of its source";
  ASSERT_EQ(of_equal.size(), 2u);
  EXPECT_EQ(of_equal[0].fixed, of_session[0].fixed);
  EXPECT_EQ(of_equal[0].span, of_session[0].span);
  EXPECT_EQ(of_session[0].span.has_value(), has_spans());
  // Each turn has written the span of its own tokens.
  const auto segments = sessions_.store().Segments("", of_fork[0]);
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(segments->size(), has_spans() ? 4u : 1u);
  ASSERT_EQ(segments->back().kind, store::SegmentKind::kFixed);
  if (!has_spans()) return;
  EXPECT_EQ((*segments)[1].key, of_session[0].span);
}

// More turns end than snapshots can be written meanwhile.
TEST_P(KeptCachesTest, OfTheLastTurnsAreSavedInTheEnd) {
  std::vector<SessionId> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(sessions_.Open());
  for (int turn = 0; turn < 3; ++turn) {
    for (const SessionId& id : ids) sessions_.Turn(id, Text(turn), 2);
  }
  const absl::Time until = absl::Now() + absl::Seconds(60);
  for (const SessionId& id : ids) {
    while (sessions_.Snapshots(id).empty() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_FALSE(sessions_.Snapshots(id).empty()) << id.ToString();
  }
}

// A file may have been forged.
TEST_P(KeptCachesTest, OfAnImportedSessionAreItsOwn) {
  const std::vector<KeptTurn> expected = Undisturbed(3);
  const SessionId source = sessions_.Open();
  Run(source, 0, 1);
  const SessionId copy = sessions_.Copy(source);
  EXPECT_EQ(RunOne(copy, 1).tokens, expected[1].tokens);
  const SessionId equal = sessions_.Open();
  Run(equal, 0, 2);
  const auto of_copy = sessions_.Snapshots(copy);
  const auto of_equal = sessions_.Snapshots(equal);
  ASSERT_FALSE(of_copy.empty());
  ASSERT_FALSE(of_equal.empty());
  EXPECT_NE(of_copy[0].fixed, of_equal[0].fixed);
  if (has_spans()) {
    EXPECT_NE(of_copy[0].span, of_equal[0].span);
  }
  EXPECT_THAT(of_copy[0].cache, testing::HasSubstr("file " + copy.ToString()));
  // They are good for the session itself.
  sessions_.Restart();
  ExpectRestored(RunOne(copy, 2), expected[2], expected[1].end.position - 1);
  EXPECT_THAT(sessions_.Snapshots(copy)[0].cache, testing::HasSubstr("file " + copy.ToString()));
}

TEST_P(KeptCachesTest, AreReadWhereTheSessionReturnsTo) {
  const std::vector<KeptTurn> expected = Undisturbed(4);
  const SessionId session = sessions_.Open();
  const std::vector<KeptTurn> turns = Run(session, 0, 3);
  sessions_.Restart();
  Place place;
  place.turn = turns[0].id;
  sessions_.Rewind(session, place);
  const KeptTurn second = Run(session, 1, 2)[0];
  ExpectRestored(second, expected[1], expected[0].end.position - 1);
  place.turn = turns[1].id;  // of a branch that the session has left
  const SessionView fork = sessions_.Fork(session, place);
  EXPECT_EQ(fork.position, expected[1].end.position);
  EXPECT_EQ(Run(fork.id, 2, 3)[0].tokens, expected[2].tokens);
  // Within a turn, the rest is computed again.
  sessions_.Restart();
  place.turn.reset();
  place.position = expected[1].end.position - 5;
  sessions_.Rewind(session, place);
  const KeptTurn within = Run(session, 2, 3)[0];
  EXPECT_EQ(within.end.usage.restored_tokens, expected[0].end.position - 1);
  EXPECT_EQ(within.end.usage.restored_tokens + within.end.usage.recomputed_tokens,
            expected[1].end.position - 6);
}

TEST_P(KeptCachesTest, AreReadForATurnThatRewritesTheHistory) {
  // The third turn replaces the last tokens of the second one.
  const auto rewrite = [&](const SessionId& session, uint64_t position) {
    return RunOne(session, 2, position - 3);
  };
  const SessionId control = sessions_.Open();
  const std::vector<KeptTurn> expected = Run(control, 0, 2);
  const KeptTurn rewritten = rewrite(control, expected[1].end.position);
  const KeptTurn after = RunOne(control, 3);
  const SessionId session = sessions_.Open();
  Run(session, 0, 2);
  sessions_.Restart();
  const KeptTurn third = rewrite(session, expected[1].end.position);
  EXPECT_EQ(third.tokens, rewritten.tokens);
  EXPECT_EQ(third.end.usage.restored_tokens, expected[0].end.position - 1);
  sessions_.Restart();
  ExpectRestored(RunOne(session, 3), after, third.end.position - 1);
}

// Each of them is so large that its caches have files of their own.
class KeptCachesInFilesTest : public KeptCachesTest {};

TEST_P(KeptCachesInFilesTest, ThatAreDamagedAreComputedAgain) {
  const std::vector<KeptTurn> expected = Undisturbed(4);
  const SessionId session = sessions_.Open();
  Run(session, 0, 2);
  sessions_.Stop();
  for (const auto& file : std::filesystem::directory_iterator(sessions_.segments())) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(file.file_size() / 2));
    bytes.put('\xa5').put('\x5a').put('\x3c');
  }
  sessions_.Start();
  const KeptTurn third = Run(session, 2, 3)[0];
  EXPECT_EQ(third.tokens, expected[2].tokens);
  EXPECT_EQ(third.end.usage.restored_tokens, 0u);
  EXPECT_EQ(third.end.usage.recomputed_tokens, expected[1].end.position - 1);
  EXPECT_NE(third.end.usage.recompute_reason.find("could not be used"), std::string::npos)
      << third.end.usage.recompute_reason;
  EXPECT_EQ(sessions_.Restores("damaged"), 1);
  // The snapshot of this turn has all segments anew.
  sessions_.Restart();
  ExpectRestored(Run(session, 3, 4)[0], expected[3], expected[2].end.position - 1);
}

TEST_P(KeptCachesInFilesTest, ThatAreMissingAreComputedAgain) {
  const std::vector<KeptTurn> expected = Undisturbed(3);
  const SessionId session = sessions_.Open();
  Run(session, 0, 2);
  sessions_.Stop();
  ASSERT_GT(std::filesystem::remove_all(sessions_.segments()), 1u);
  sessions_.Start();
  const KeptTurn third = Run(session, 2, 3)[0];
  EXPECT_EQ(third.tokens, expected[2].tokens);
  EXPECT_EQ(third.end.usage.restored_tokens, 0u);
  EXPECT_EQ(third.end.usage.recomputed_tokens, expected[1].end.position - 1);
}

// Memory for the caches of one session.
class ScarceKeptCachesTest : public KeptCachesTest {
 protected:
  ScarceKeptCachesTest() : KeptCachesTest(CacheBytes()) {}

  static uint64_t CacheBytes() {
    TestEngine engine("{}", 0, {}, Demo(GetParam()));
    return TurnDemand::Held(engine->model().backend().info(), 1200);
  }
};

TEST_P(ScarceKeptCachesTest, AreReadAfterAnEviction) {
  const SessionId one = sessions_.Open();
  const SessionId other = sessions_.Open();
  KeptTurn of_one;
  KeptTurn of_other;
  uint64_t position = 0;
  for (int turn = 0; turn < 4; ++turn) {
    position = of_one.end.position;
    of_one = Run(one, turn, turn + 1)[0];
    of_other = Run(other, turn, turn + 1)[0];
    EXPECT_EQ(of_other.tokens, of_one.tokens);
  }
  // The engine has measured how long its tokens take.
  ExpectRestored(of_one, of_other, position - 1);
  ExpectRestored(of_other, of_one, position - 1);
}

INSTANTIATE_TEST_SUITE_P(Models, KeptCachesTest,
                         testing::Values("minimal", "dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Models, KeptCachesInFilesTest,
                         testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Models, ScarceKeptCachesTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace longstream
