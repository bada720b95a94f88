// The copies in memory as the fleet sees them: dropped, stopped, and sent to another replica.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/service/serving/fleet/sent_caches.h"

namespace longstream {
namespace {

class FleetCopiesTest : public SentCaches {};

TEST_F(FleetCopiesTest, ASessionArrivesWithItsCaches) {
  const auto expected = Undisturbed({kTurn, kNext});
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_EQ(Run(a_, kTurn).tokens, expected[0]);
  for (const size_t size : {size_t{1} << 20, size_t{7}}) {
    SCOPED_TRACE(size);
    Send(a_, b_, size);
    if (HasFatalFailure()) return;
  }
  Replicas::Take("b/2");
  a_.copies().Drop({"", kId});
  const FleetTurn turn = Run(b_, kNext);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_EQ(turn.tokens, expected[1]);
  EXPECT_EQ(turn.end.usage.recomputed_tokens, 0u) << turn.end.usage.recompute_reason;
  EXPECT_EQ(b_.restores, 1);
}

TEST_F(FleetCopiesTest, TheFirstTurnSaysThatTheCachesHaveComeFromAnotherReplica) {
  ASSERT_TRUE(Open(a_).ok());
  const FleetTurn first = Run(a_, kTurn);
  EXPECT_EQ(first.end.usage.restore_source, RestoreSource::kNone);
  Send(a_, b_, size_t{1} << 20);
  if (HasFatalFailure()) return;
  Replicas::Take("b/2");
  a_.copies().Drop({"", kId});
  for (const bool is_again : {false, true}) {  // the answer in the log says it too
    SCOPED_TRACE(is_again);
    const FleetTurn next = Run(b_, kNext);
    ASSERT_TRUE(next.status().ok()) << next.status();
    EXPECT_EQ(next.how, is_again ? NewTurn::How::kReplayed : NewTurn::How::kNew);
    EXPECT_EQ(next.end.usage.restore_source, RestoreSource::kPeer);
    EXPECT_EQ(next.end.usage.restored_tokens, first.end.position - 1);
    EXPECT_EQ(next.end.usage.reused_tokens, 0u);
    EXPECT_EQ(next.end.usage.recomputed_tokens, 0u) << next.end.usage.recompute_reason;
  }
  EXPECT_EQ(b_.FromPeers("ok"), 1);
  EXPECT_EQ(a_.FromPeers("ok"), 0);
  const FleetTurn last = Run(b_, {7, 3});
  ASSERT_TRUE(last.status().ok()) << last.status();
  EXPECT_EQ(last.end.usage.restore_source, RestoreSource::kNone);
  EXPECT_EQ(last.end.usage.restored_tokens, 0u);
  EXPECT_GT(last.end.usage.reused_tokens, first.end.position);
}

TEST_F(FleetCopiesTest, CachesOfAnotherVersionAreNotUsed) {
  const auto expected = Undisturbed({kTurn, kNext});
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Send(a_, b_, 1000);
  Replicas::Take("c/3");
  Replicas::Take("b/2");
  const FleetTurn turn = Run(b_, kNext);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_EQ(turn.tokens, expected[1]);
  EXPECT_GT(turn.end.usage.recomputed_tokens + turn.end.usage.restored_tokens, 0u);
  EXPECT_NE(turn.end.usage.restore_source, RestoreSource::kPeer);
  EXPECT_EQ(b_.FromPeers("ok"), 0);
  EXPECT_TRUE(b_.gate.Has("caches lost ABORTED"));
}

TEST_F(FleetCopiesTest, CachesThatAreNotUsedSoonAreFreed) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Engine& engine = **models_.Find("m");
  engine.Flush();
  const uint64_t before = HeldBytes(engine);
  Send(a_, b_, 1000);
  engine.Flush();
  EXPECT_GT(HeldBytes(engine), before);
  b_.sessions.fleet()->SettleArrived(MonotonicTime::Now());
  EXPECT_FALSE(b_.gate.Has("evicted"));
  EXPECT_FALSE(b_.copies().FindCaches(At(Row())).ok()) << "the session is not of this replica";
  b_.sessions.fleet()->SettleArrived(MonotonicTime::Now() + kArrivedCachesWait);
  EXPECT_TRUE(b_.gate.Has("evicted")) << "the gate keeps the state of the session";
  EXPECT_TRUE(b_.gate.Has("caches lost DEADLINE_EXCEEDED"));
  engine.Flush();
  EXPECT_EQ(HeldBytes(engine), before);
  Send(a_, b_, 1000);
  b_.copies().Drop({"", kId});
  engine.Flush();
  EXPECT_EQ(HeldBytes(engine), before);
}

// A peer that drains has given the session. Nobody uses it for now.
TEST_F(FleetCopiesTest, ASessionThatWasTakenIsAnIdleSessionWithItsCaches) {
  const auto expected = Undisturbed({kTurn, kNext});
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_EQ(Run(a_, kTurn).tokens, expected[0]);
  Send(a_, b_, size_t{1} << 20);
  Replicas::Take("b/2");
  a_.copies().Drop({"", kId});
  // The manager does that once a second.
  ASSERT_TRUE(WaitUntil([&] { return b_.copies().Waiting().empty(); }));
  EXPECT_EQ(b_.restores, 1);
  EXPECT_TRUE(b_.copies().FindCaches(At(Row())).ok());
  // The caches are evicted like those of other sessions, and sent on, as soon as nobody holds the
  // session any more.
  EXPECT_TRUE(WaitUntil([&] { return Read(b_, At(Row())) != nullptr; }));
  const FleetTurn turn = Run(b_, kNext);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_EQ(turn.tokens, expected[1]);
  EXPECT_EQ(turn.end.usage.recomputed_tokens, 0u);
  EXPECT_EQ(turn.end.usage.restore_source, RestoreSource::kPeer);
  EXPECT_EQ(b_.FromPeers("ok"), 1);
  EXPECT_EQ(b_.restores, 1);
}

// The engine is busy, so it attaches the caches a little later.
TEST_F(FleetCopiesTest, ATurnWaitsForTheCachesOfItsSession) {
  constexpr SessionId kBusy{8, 8};
  ASSERT_TRUE(Open(a_, kBusy).ok());
  FleetTurn busy;
  TurnHandle running = Begin(Load(a_, kTurn, kBusy), kTurn, 100'000, &busy);
  ASSERT_TRUE(busy.refused.ok()) << busy.refused;
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Replica* from = &a_;
  Replica* to = &b_;
  for (uint64_t i = 1; i <= 20; ++i) {
    SCOPED_TRACE(i);
    Send(*from, *to, size_t{1} << 20);
    if (HasFailure()) break;
    Replicas::Take(to == &a_ ? "a/1" : "b/2");
    from->copies().Drop({"", kId});
    to->sessions.fleet()->SettleArrived(MonotonicTime::Now());
    const FleetTurn turn = Run(*to, {9, i}, 2);
    EXPECT_TRUE(turn.status().ok()) << turn.status();
    EXPECT_EQ(turn.end.usage.recomputed_tokens, 0u) << turn.end.usage.recompute_reason;
    std::swap(from, to);
  }
  a_.copies().Stop({"", kBusy}, absl::AbortedError("over"));
  ReadToEnd(running, &busy);
}

// The manager looks once a second, and the store may hang for an hour.
TEST_F(FleetCopiesTest, CachesThatWaitAddOneReadToAStoreThatHangs) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Send(a_, b_, size_t{1} << 20);
  const int before = store_->session_reads();
  store_->Hold();
  for (int second = 0; second < 100; ++second) {
    b_.sessions.fleet()->SettleArrived(MonotonicTime::Now());
  }
  EXPECT_TRUE(WaitUntil([&] { return store_->calls_waiting() > 0; }));
  store_->Release();
  // Reads of one session come one after the other.
  absl::Notification read;
  b_.sessions.Read<bool>(
      {"", kId}, [] { return absl::StatusOr<bool>(true); },
      [&](const absl::StatusOr<bool>& /*done*/) { read.Notify(); });
  read.WaitForNotification();
  // The manager itself has looked, too.
  EXPECT_LT(store_->session_reads() - before, 50);
}

// Another replica changes an imported session before it is restored.
TEST_F(FleetCopiesTest, ImportedCachesAreOnlyForTheVersionThatTheImportMade) {
  constexpr SessionId kCopy{3, 4}, kTaken{5, 6};
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  absl::StatusOr<std::shared_ptr<SessionExport>> exported;
  absl::Notification done;
  a_.sessions.ExportSession({"", kId}, [&](const auto& made) {
    exported = made;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_TRUE(exported.ok()) << exported.status();
  std::string file;
  for (std::string piece = "x"; !piece.empty();) {
    ASSERT_TRUE((*exported)->Read(1000, &piece).ok());
    file += piece;
  }
  for (const SessionId& id : {kCopy, kTaken}) {
    SessionImport::Wanted wanted;
    wanted.id = id;
    const auto import = a_.sessions.ImportSession("", wanted);
    ASSERT_TRUE(import.ok()) << import.status();
    absl::Notification written;
    (*import)->Write(file, [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      written.Notify();
    });
    written.WaitForNotification();
    // Reads of one session come one after the other.
    absl::Notification may_restore;
    a_.sessions.Read<bool>(
        {"", id},
        [&] {
          may_restore.WaitForNotification();
          return true;
        },
        [](const absl::StatusOr<bool>&) {});
    const absl::StatusOr<SessionView> view = WaitForSession([&](SessionManager::Opened opened) {
      (*import)->Finish(std::move(opened));
      EXPECT_TRUE(WaitUntil([&] { return store_->Session({"", id}).ok(); }));
      if (id == kTaken) Replicas::Take("b/2", id);
      may_restore.Notify();
    });
    EXPECT_TRUE(view.ok()) << view.status();
    const FleetTurn turn = Run(a_, kNext, 10, id);
    EXPECT_TRUE(turn.status().ok()) << turn.status();
    EXPECT_EQ(turn.end.usage.recomputed_tokens > 0, id == kTaken);
  }
}

TEST_F(FleetCopiesTest, CachesThatDoNotFitAreRefused) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  const fleet::Fence at = At(Row());
  const std::shared_ptr<fleet::CacheReader> reader = Read(a_, at);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Take(b_, "", at).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Take(b_, "longstream.caches.1\n1\n2\n-3\n4\n5\nk\nm", at).status().code(),
            absl::StatusCode::kInvalidArgument);
  absl::StatusOr<PeerCachesHeader> header = PeerCachesHeader::Decode(reader->header());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->Encode(), reader->header());
  PeerCachesHeader other = *header;
  ++other.identity.fingerprint;
  EXPECT_EQ(Take(b_, other.Encode(), at).status().code(), absl::StatusCode::kFailedPrecondition);
  other = *header;
  other.position = uint64_t{1} << 40;
  EXPECT_EQ(Take(b_, other.Encode(), at).status().code(), absl::StatusCode::kFailedPrecondition);
  other = *header;
  other.model = "none";
  EXPECT_EQ(Take(b_, other.Encode(), at).status().code(), absl::StatusCode::kNotFound);
  // Bytes that are missing, or too many.
  const auto writer = Take(b_, reader->header(), at);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE((*writer)->Write(std::string(reader->bytes() + 1, 'x')).ok());
}

TEST_F(FleetCopiesTest, OnlyAnIdleCopyOfTheVersionHasCaches) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  fleet::Fence at = At(Row());
  EXPECT_FALSE(b_.copies().FindCaches(at).ok());
  EXPECT_EQ(Read(b_, at), nullptr);
  ++at.version;
  EXPECT_FALSE(a_.copies().FindCaches(at).ok());
  EXPECT_EQ(Read(a_, at), nullptr);
  // The row has got this version without a change of the session.
  a_.copies().Keep(At(Row()), at);
  EXPECT_TRUE(a_.copies().FindCaches(at).ok());
  EXPECT_NE(Read(a_, at), nullptr);
}

TEST_F(FleetCopiesTest, ADropEndsTheRunningTurn) {
  ASSERT_TRUE(Open(a_).ok());
  FleetTurn turn;
  TurnHandle handle = Begin(Load(a_, kTurn), kTurn, 10'000, &turn);
  ASSERT_TRUE(handle) << turn.refused;
  ASSERT_TRUE(WaitUntil([&] { return a_.gate.Has("started OK"); }));
  a_.copies().Drop({"", kId});
  ReadToEnd(handle, &turn);
  EXPECT_EQ(turn.end.status.code(), absl::StatusCode::kAborted) << turn.end.status;
  EXPECT_EQ(StateOf(kTurn), store::TurnState::kStarted);
  EXPECT_FALSE(a_.gate.Has("committed OK"));
  EXPECT_TRUE(Run(b_, kTurn, 10).status().ok());
}

TEST_F(FleetCopiesTest, AStopKeepsNothingOfTheTurn) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  a_.gate.TakeEvents();
  absl::StatusOr<NewTurn> loaded = Load(a_);
  ASSERT_TRUE(loaded.ok());
  ASSERT_TRUE(loaded->Lease().ok());
  SessionTurnRequest request = Generate(nullptr, "text", 10'000);
  request.on_abort = OnAbort::kKeep;
  TurnHandle handle = loaded->Make(request, nullptr);
  ASSERT_TRUE(loaded->Start(handle).ok());
  ASSERT_TRUE(WaitUntil([&] { return a_.gate.Has("started OK"); }));
  a_.copies().Stop({"", kId}, absl::UnavailableError("the server is shutting down"));
  FleetTurn turn;
  ReadToEnd(handle, &turn);
  EXPECT_EQ(turn.end.status.code(), absl::StatusCode::kUnavailable) << turn.end.status;
  EXPECT_FALSE(a_.gate.Has("committed OK"));
  EXPECT_EQ(Row().position, 14u);
  EXPECT_TRUE(Run(a_, kNext).status().ok()) << "the copy is at the head";
  EXPECT_EQ(a_.restores, 0);
}

}  // namespace
}  // namespace longstream
