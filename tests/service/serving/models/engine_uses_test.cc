// An engine is unloaded when no session and no call uses it.
#include "service/serving/engines/engine_uses.h"

#include <set>
#include <vector>

#include "service/clock/growing_pause.h"
#include "service/serving/engines/served_sessions.h"
#include "tests/service/serving/models/admin_fixture.h"

namespace longstream {
namespace {

TEST(GrowingPause, Doubles) {
  GrowingPause pause(absl::Milliseconds(20), absl::Milliseconds(70));
  for (const int expected : {20, 40, 70, 70}) {
    EXPECT_EQ(pause.Next(), absl::Milliseconds(expected));
  }
  pause.Reset();
  EXPECT_EQ(pause.Next(), absl::Milliseconds(20));
}

class EngineUsesTest : public ModelAdminTest {
 protected:
  EngineUsesTest() {
    EXPECT_TRUE(Load(Model("a")).ok());
    EXPECT_TRUE(Load(Model("b")).ok());
    a_ = *models_->Find("a");
    b_ = *models_->Find("b");
  }
  static ServedSession Make(const std::shared_ptr<Engine>& engine, uint64_t id = 7) {
    return {TurnLease::OfNewSession(SessionId{id, id}, "a", 100, absl::Hours(1)).session(), nullptr,
            engine};
  }
  std::vector<ServedSession> On(const Engine& engine) const {
    return served_.On(engine, nullptr, 100).sessions;
  }

  std::shared_ptr<Engine> a_, b_;
  ServedSessions served_{2};
};

TEST_F(EngineUsesTest, CallsAndSessionsKeepAnEngine) {
  EngineUses& uses = served_.uses();
  std::shared_ptr<void> call = uses.Hold(a_);
  EXPECT_EQ(uses.of(*a_).calls, 1u);
  EXPECT_FALSE(uses.UnloadIfFree(*a_));
  const ServedSession session = Make(a_);
  ASSERT_TRUE(served_.Insert(session).ok());
  call.reset();
  EXPECT_FALSE(uses.UnloadIfFree(*a_));
  EXPECT_FALSE(a_->unloading());
  EXPECT_TRUE(served_.Move(*session.session, b_));
  EXPECT_EQ(uses.of(*b_).sessions, 1u);
  EXPECT_TRUE(uses.UnloadIfFree(*a_));
  EXPECT_TRUE(a_->unloading());
  EXPECT_EQ(uses.Hold(a_), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(served_.Insert(Make(a_, 8))));
  EXPECT_FALSE(served_.Move(*session.session, a_));
  EXPECT_EQ(On(*b_).size(), 1u);
  EXPECT_TRUE(served_.CloseAndRemove(*session.session));
  EXPECT_TRUE(session.session->closed());
  EXPECT_FALSE(served_.CloseAndRemove(*session.session));
  EXPECT_FALSE(served_.Remove(*session.session).has_value());
  EXPECT_TRUE(uses.UnloadIfFree(*b_));
}

TEST_F(EngineUsesTest, ACallKeepsAnEngineWhoseTimeHasPassed) {
  EngineUses& uses = served_.uses();
  const ServedSession session = Make(a_);
  ASSERT_TRUE(served_.Insert(session).ok());
  std::shared_ptr<void> call = uses.Hold(a_);
  EXPECT_FALSE(uses.UnloadIfNoCall(*a_));
  EXPECT_FALSE(a_->unloading());
  call.reset();
  EXPECT_TRUE(uses.UnloadIfNoCall(*a_)) << "the session ends with it";
  EXPECT_TRUE(a_->unloading());
  EXPECT_EQ(uses.Hold(a_), nullptr) << "the call finds another version";
  EXPECT_TRUE(served_.Remove(*session.session).has_value());
  EXPECT_TRUE(uses.UnloadIfNoCall(*b_)) << "nothing uses it";
}

TEST_F(EngineUsesTest, MovesAreUses) {
  EngineUses& uses = served_.uses();
  std::shared_ptr<void> first = uses.BeginMove(a_, 2);
  const std::shared_ptr<void> second = uses.BeginMove(a_, 2);
  EXPECT_EQ(uses.BeginMove(a_, 2), nullptr);
  EXPECT_NE(uses.BeginMove(b_, 2), nullptr) << "each engine has its own";
  EXPECT_FALSE(uses.UnloadIfFree(*a_));
  first.reset();
  EXPECT_NE(uses.BeginMove(a_, 2), nullptr);
  EXPECT_EQ(uses.of(*a_).moves, 1u);
}

TEST_F(EngineUsesTest, ASessionThatFindsNoRoomIsNoUse) {
  const ServedSession first = Make(a_, 1), second = Make(a_, 2);
  ASSERT_TRUE(served_.Insert(first).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(served_.Insert(Make(a_, 1))));
  ASSERT_TRUE(served_.Insert(second).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(served_.Insert(Make(a_, 3))));
  EXPECT_EQ(served_.uses().of(*a_).sessions, 2u);
  EXPECT_TRUE(served_.Remove(*first.session).has_value());
  EXPECT_TRUE(served_.Remove(*second.session).has_value());
  EXPECT_TRUE(served_.uses().UnloadIfFree(*a_));
}

TEST_F(EngineUsesTest, PartsHaveEachSessionOfAnEngineOnce) {
  ServedSessions served(0);
  std::vector<ServedSession> all;
  for (uint64_t i = 0; i < 20; ++i) {
    all.push_back(Make(i % 3 == 0 ? b_ : a_, i));
    ASSERT_TRUE(served.Insert(all.back()).ok());
  }
  std::set<SessionId> seen;
  const Session* next = nullptr;
  int parts = 0;
  do {
    const ServedSessions::Part part = served.On(*a_, next, 4);
    EXPECT_LE(part.sessions.size(), 4u);
    for (const ServedSession& each : part.sessions) {
      EXPECT_TRUE(seen.insert(each.session->key().id).second);
      EXPECT_TRUE(served.Remove(*each.session).has_value()) << "the order stays";
    }
    next = part.next;
    ++parts;
  } while (next != nullptr);
  EXPECT_EQ(parts, 5);
  EXPECT_EQ(seen.size(), 13u);
  EXPECT_EQ(served.On(*b_, nullptr, 100).sessions.size(), 7u);
}

TEST_F(EngineUsesTest, MovesThatFailArePostponed) {
  const ServedSession session = Make(a_);
  ASSERT_TRUE(served_.Insert(session).ok());
  const MonotonicTime now = MonotonicTime::Now();
  EXPECT_LT(On(*a_)[0].moves_at, now);
  served_.DelayMove(*session.session);
  const MonotonicTime first = On(*a_)[0].moves_at;
  EXPECT_GE(first, now + absl::Seconds(1));
  served_.DelayMove(*session.session);
  EXPECT_GE(On(*a_)[0].moves_at, now + absl::Seconds(2));
  EXPECT_TRUE(served_.Remove(*session.session).has_value());
  served_.DelayMove(*session.session);
}

TEST(TurnLease, WorkOfTheServerIsNoUse) {
  TurnLease made = TurnLease::OfNewSession(SessionId{7, 7}, "a", 100, absl::Hours(1));
  const std::shared_ptr<Session> session = made.session();
  EXPECT_FALSE(TurnLease::TakeUnused(session)) << "it is leased";
  made.Drop();
  const MonotonicTime last = session->LastUse().last;
  {
    TurnLease lease = TurnLease::TakeUnused(session);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(absl::IsAborted(TurnLease::Take(session).status()));
  }
  EXPECT_EQ(session->LastUse().last, last);
  {
    const AwaitedSession awaited(session);
    EXPECT_FALSE(TurnLease::TakeUnused(session));
  }
  session->Close();
  EXPECT_FALSE(TurnLease::TakeUnused(session));
}

}  // namespace
}  // namespace longstream
