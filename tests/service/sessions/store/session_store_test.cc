// The contract of every store: sessions and turns.
#include "service/sessions/store/session_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/service/sessions/store/session_store_suite.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using SessionStoreTest = SessionStoreSuite;

TEST_P(SessionStoreTest, CountsTheOpenSessionsOfEachTenant) {
  EXPECT_THAT(*store_->CountSessions(), IsEmpty());
  for (uint64_t i = 0; i < 5; ++i) Open(NewSession(i, "a"));
  Open(NewSession(0, "b"));
  const SessionKey closed = NewSession(1, "a").key;
  ASSERT_TRUE(ApplyOne(*store_, CloseSession{closed, std::nullopt, At(9)}).ok());
  using Counts = std::map<std::string, uint64_t>;
  EXPECT_EQ(*store_->CountSessions(), (Counts{{"a", 4}, {"b", 1}}));
  Reopen();
  EXPECT_EQ(*store_->CountSessions(), (Counts{{"a", 4}, {"b", 1}}));
}

TEST_P(SessionStoreTest, CountsTheOpenSessionsOfEachModelAndOwner) {
  EXPECT_THAT(*store_->CountOwnedSessions(), IsEmpty());
  for (uint64_t i = 0; i < 8; ++i) {
    SessionRow row = NewSession(i, i % 2 == 0 ? "a" : "b");
    if (i < 2) row.model = "other";
    if (i == 7) row.owner = "";
    Open(row);
  }
  ASSERT_TRUE(ApplyOne(*store_, CloseSession{NewSession(6, "a").key, std::nullopt, At(9)}).ok());
  using Owned = SessionStore::OwnedSessions;
  for (const bool reopened : {false, true}) {
    if (reopened) Reopen();
    EXPECT_THAT(
        *store_->CountOwnedSessions(),
        testing::UnorderedElementsAre(Owned{"other", "replica-1", 2},
                                      Owned{"dense", "replica-1", 4}, Owned{"dense", "", 1}));
  }
}

TEST_P(SessionStoreTest, RowsComeBackAsTheyWereAlsoAfterReopening) {
  SessionRow session = NewSession(7, "ten\xC3\xA4nt");
  session.forked_from = SessionId{~uint64_t{0}, 5};
  session.delete_time = At(1000);
  Open(session);
  TurnRow turn = NewTurn(~uint64_t{0}, std::string(3 << 20, '\xff'));
  const auto started = ApplyOne(*store_, StartTurn{{session.key, 1, 1}, turn});
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->version, 2);
  const auto committed = ApplyOne(*store_, CommitTurn{.fence = {session.key, 1, 2},
                                                      .turn = started->turn,
                                                      .position = uint64_t{1} << 40,
                                                      .result = std::string("\0r", 2),
                                                      .now = At(9),
                                                      .delete_time = At(2000)});
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(committed->version, 3);

  session.version = 3;
  session.head = started->turn;
  session.position = uint64_t{1} << 40;
  session.last_use_time = At(9);
  session.delete_time = At(2000);
  turn.number = started->turn;
  turn.session = session.key;
  turn.state = TurnState::kCommitted;
  turn.position = uint64_t{1} << 40;
  turn.end_time = At(9);
  turn.result = std::string("\0r", 2);
  for (int round = 0; round < 2; ++round) {
    const auto stored = store_->Session(session.key);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(*stored, session);
    const auto by_id = store_->Turn(session.key, turn.id);
    ASSERT_TRUE(by_id.ok()) << by_id.status();
    EXPECT_EQ(*by_id, turn);
    EXPECT_EQ(*store_->Turn(turn.number), turn);
    Reopen();
  }
}

TEST_P(SessionStoreTest, AnIdBelongsToATenantUntilTheSessionIsClosed) {
  Open(NewSession(7));
  EXPECT_EQ(CodeOf(OpenSession{NewSession(7)}), absl::StatusCode::kAlreadyExists);
  Open(NewSession(7, "other"));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  EXPECT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(3)}), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(3)}),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Session(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Turn(key_, NewTurn(1).id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_->Turn(turn).ok()) << "until it is collected";
  EXPECT_TRUE(store_->Session(NewSession(7, "other").key).ok());

  Open(NewSession(7));
  EXPECT_NE(CommitOne(*store_, key_, 1, 10), kNoTurn) << "the turn's id is free again";
}

TEST_P(SessionStoreTest, ChangesOfAnotherEpochOrVersionAreRefused) {
  Open(NewSession(7));
  const auto started = ApplyOne(*store_, StartTurn{{key_, 1, 1}, NewTurn(1)});
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(CodeOf(StartTurn{{key_, 1, 1}, NewTurn(2)}), absl::StatusCode::kAborted);
  const auto moved =
      ApplyOne(*store_, ChangeOwner{{key_, 1, 2}, "replica-2", OwnerCondition::kNone});
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->epoch, 2);
  const Fence lost = {key_, 1, 3};
  const Change changes[] = {
      StartTurn{lost, NewTurn(3)},
      CommitTurn{.fence = lost, .turn = started->turn, .result = "", .now = At(4)},
      AbandonTurn{.fence = lost, .turn = started->turn, .result = "", .now = At(4)},
      MoveHead{.fence = lost, .now = At(4)},
      ChangeOwner{lost, "replica-1", OwnerCondition::kNone},
      CloseSession{.key = key_, .fence = lost, .now = At(4)},
  };
  const SessionRow before = *store_->Session(key_);
  for (const Change& change : changes) {
    const auto refused = ApplyOne(*store_, change);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kAborted) << change.index();
    EXPECT_THAT(refused.status().message(), HasSubstr("epoch 2 and version 3, not epoch 1"));
  }
  EXPECT_EQ(*store_->Session(key_), before);
}

TEST_P(SessionStoreTest, ATurnIsCommittedOnce) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  ASSERT_NE(turn, kNoTurn);
  EXPECT_EQ(CodeOf(StartTurn{FenceOf(*store_, key_), NewTurn(1)}),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(
      CodeOf(CommitTurn{.fence = FenceOf(*store_, key_), .turn = turn, .result = "", .now = At(5)}),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(AbandonTurn{
                .fence = FenceOf(*store_, key_), .turn = turn, .result = "", .now = At(5)}),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(CommitTurn{
                .fence = FenceOf(*store_, key_), .turn = turn + 1000, .result = "", .now = At(5)}),
            absl::StatusCode::kNotFound);
  Open(NewSession(8));
  const auto other = ApplyOne(*store_, StartTurn{{NewSession(8).key, 1, 1}, NewTurn(1)});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(CodeOf(CommitTurn{
                .fence = FenceOf(*store_, key_), .turn = other->turn, .result = "", .now = At(5)}),
            absl::StatusCode::kFailedPrecondition)
      << "a turn of another session";
}

TEST_P(SessionStoreTest, ATurnThatStartedOnAnotherHeadCannotBeCommitted) {
  Open(NewSession(7));
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  const TurnNumber second = CommitOne(*store_, key_, 2, 20);
  const auto started = ApplyOne(*store_, StartTurn{FenceOf(*store_, key_), NewTurn(3)});
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(Path(second), (std::vector<TurnNumber>{second, first}));
  EXPECT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), first, At(5)}), absl::StatusCode::kOk);
  EXPECT_EQ(store_->Session(key_)->position, 10u);
  EXPECT_EQ(
      CodeOf(CommitTurn{
          .fence = FenceOf(*store_, key_), .turn = started->turn, .result = "", .now = At(5)}),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      CodeOf(AbandonTurn{
          .fence = FenceOf(*store_, key_), .turn = started->turn, .result = "why", .now = At(6)}),
      absl::StatusCode::kOk);
  EXPECT_EQ(store_->Turn(started->turn)->state, TurnState::kAbandoned);
  EXPECT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), started->turn, At(5)}),
            absl::StatusCode::kNotFound)
      << "only committed turns can be the head";
  EXPECT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), kNoTurn, At(5)}), absl::StatusCode::kOk);
  EXPECT_EQ(store_->Session(key_)->position, 0u);
}

TEST_P(SessionStoreTest, ListsTheTurnsOfASession) {
  Open(NewSession(7));
  Open(NewSession(8));
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  CommitOne(*store_, NewSession(8).key, 1, 10);
  const TurnNumber second = CommitOne(*store_, key_, 2, 20);
  const auto lost = ApplyOne(*store_, StartTurn{FenceOf(*store_, key_), NewTurn(3)});
  ASSERT_TRUE(lost.ok());
  const auto numbers = [&](TurnNumber after, size_t limit) {
    const auto found = store_->TurnNumbers(key_, after, limit);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::vector<TurnNumber>{};
  };
  EXPECT_EQ(numbers(kNoTurn, 10), (std::vector<TurnNumber>{first, second, lost->turn}));
  EXPECT_EQ(numbers(kNoTurn, 2), (std::vector<TurnNumber>{first, second}));
  EXPECT_EQ(numbers(first, 1), std::vector<TurnNumber>{second});
  EXPECT_EQ(numbers(lost->turn, 10), std::vector<TurnNumber>{});
  EXPECT_EQ(*store_->TurnNumbers(NewSession(9).key, kNoTurn, 10), std::vector<TurnNumber>{});
}

TEST_P(SessionStoreTest, AHeadMovesWithOrWithoutProperties) {
  SessionRow row = NewSession(7);
  row.properties = "before";
  Open(row);
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  CommitOne(*store_, key_, 2, 20);
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), first, At(5)}), absl::StatusCode::kOk);
  EXPECT_EQ(store_->Session(key_)->properties, "before");
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), first, At(6), "after"}), absl::StatusCode::kOk);
  EXPECT_EQ(store_->Session(key_)->properties, "after");
  EXPECT_EQ(store_->Session(key_)->position, 10u);
}

TEST_P(SessionStoreTest, AForkSharesTheTurnsOfItsSource) {
  Open(NewSession(7));
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  SessionRow fork = NewSession(8);
  fork.head = first;
  fork.forked_from = key_.id;
  Open(fork);
  EXPECT_EQ(store_->Session(fork.key)->position, 10u);
  const TurnNumber of_fork = CommitOne(*store_, fork.key, 1, 15);
  const TurnNumber of_source = CommitOne(*store_, key_, 2, 30);
  EXPECT_EQ(Path(of_fork), (std::vector<TurnNumber>{of_fork, first}));
  EXPECT_EQ(Path(of_source), (std::vector<TurnNumber>{of_source, first}));
  EXPECT_EQ(CodeOf(OpenSession{[] {
              SessionRow row = NewSession(9);
              row.head = 12345;
              return row;
            }()}),
            absl::StatusCode::kNotFound);
}

TEST_P(SessionStoreTest, AnImportedSessionHasItsTurnsAndGoesOn) {
  std::vector<TurnRow> turns = {NewTurn(1), NewTurn(2)};
  for (TurnRow& turn : turns) {
    turn.position = turn.id.low * 10;
    turn.end_time = At(5);
    turn.result = "result";
  }
  SessionRow row = NewSession(7);
  row.forked_from = SessionId{3, 4};
  const auto numbered = [](const std::vector<TurnNumber>& numbers) {
    return "turns " + std::to_string(numbers[0]) + " " + std::to_string(numbers[1]);
  };
  const auto imported = ApplyOne(*store_, ImportSession{row, turns, numbered});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto session = store_->Session(key_);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->position, 20u);
  EXPECT_EQ(session->forked_from, row.forked_from);
  EXPECT_EQ(session->owner, row.owner);
  EXPECT_EQ(session->epoch, imported->epoch);
  EXPECT_EQ(session->version, imported->version);
  const std::vector<TurnNumber> path = Path(session->head);
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(session->properties, numbered({path[1], path[0]}));
  for (size_t i = 0; i < 2; ++i) {
    const auto turn = store_->Turn(key_, turns[i].id);
    ASSERT_TRUE(turn.ok()) << turn.status();
    turns[i].number = path[1 - i];
    turns[i].session = key_;
    turns[i].parent = i == 0 ? kNoTurn : path[1];
    turns[i].state = TurnState::kCommitted;
    EXPECT_EQ(*turn, turns[i]);
  }
  EXPECT_NE(CommitOne(*store_, key_, 3, 30), kNoTurn);
  EXPECT_EQ(Path(store_->Session(key_)->head).size(), 3u);

  EXPECT_EQ(CodeOf(ImportSession{row, turns, numbered}), absl::StatusCode::kAlreadyExists);
  turns[1].id = turns[0].id;
  EXPECT_EQ(CodeOf(ImportSession{NewSession(8), turns, nullptr}), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Session(NewSession(8).key).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(ImportSession{NewSession(9), {}, nullptr}), absl::StatusCode::kOk);
  EXPECT_EQ(store_->Session(NewSession(9).key)->position, 0u);
  EXPECT_THAT(*store_->Check(10), IsEmpty());
}

TEST_P(SessionStoreTest, OneRefusedChangeDoesNotStopTheOthers) {
  const Change changes[] = {OpenSession{NewSession(1)}, OpenSession{NewSession(1)},
                            OpenSession{NewSession(2)},
                            StartTurn{{NewSession(2).key, 1, 1}, NewTurn(1)}};
  const auto results = store_->Apply(changes);
  std::vector<absl::StatusCode> codes;
  for (const auto& result : results) codes.push_back(result.status().code());
  EXPECT_THAT(codes, ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kAlreadyExists,
                                 absl::StatusCode::kOk, absl::StatusCode::kOk));
  EXPECT_EQ(store_->Session(NewSession(2).key)->version, 2);
  EXPECT_THAT(store_->Apply({}), IsEmpty());
}

TEST_P(SessionStoreTest, ListsSessionsInTheOrderOfTheirIds) {
  for (const uint64_t id : {5u, 300u, 1u, 64u}) Open(NewSession(id));
  SessionRow other = NewSession(6);
  other.model = "hypenet";
  Open(other);
  Open(NewSession(2, "other tenant"));
  const auto ids = [&](const std::optional<SessionId>& after, size_t limit,
                       const std::string& model) {
    std::vector<uint64_t> low;
    const auto rows = store_->Sessions("", after, limit, model);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (const SessionRow& row : *rows) low.push_back(row.key.id.low);
    return low;
  };
  EXPECT_THAT(ids({}, 10, ""), ElementsAre(1, 5, 6, 64, 300));
  EXPECT_THAT(ids({}, 2, ""), ElementsAre(1, 5));
  EXPECT_THAT(ids(NewSession(5).key.id, 2, ""), ElementsAre(6, 64));
  EXPECT_THAT(ids({}, 10, "hypenet"), ElementsAre(6));
  EXPECT_THAT(ids(NewSession(300).key.id, 10, ""), IsEmpty());
}

TEST_P(SessionStoreTest, FindsExpiredSessionsOldestFirst) {
  for (const uint64_t id : {1u, 2u, 3u}) {
    SessionRow row = NewSession(id);
    row.delete_time = At(static_cast<int64_t>(100 - 10 * id));
    Open(row);
  }
  Open(NewSession(4));  // never
  const auto expired = store_->Expired(At(80), 10);
  ASSERT_TRUE(expired.ok());
  ASSERT_EQ(expired->size(), 2u);
  EXPECT_EQ((*expired)[0].key.id.low, 3u);
  EXPECT_EQ((*expired)[1].key.id.low, 2u);
}

TEST_P(SessionStoreTest, CollectsOnlyTurnsThatNoSessionCanReturnTo) {
  Open(NewSession(7));
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  const TurnNumber rewound = CommitOne(*store_, key_, 2, 20);
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), first, At(3)}), absl::StatusCode::kOk);
  SessionRow fork = NewSession(8);
  fork.head = first;
  Open(fork);
  TurnRow young = NewTurn(3);
  young.start_time = At(50);  // of the fork; it may still be committed
  const auto started = ApplyOne(*store_, StartTurn{{fork.key, 1, 1}, young});
  ASSERT_TRUE(started.ok());
  ASSERT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(4)}), absl::StatusCode::kOk);

  EXPECT_EQ(*store_->Collect(At(4)), 0u) << "too young";
  EXPECT_EQ(*store_->Collect(At(40)), 1u);
  EXPECT_FALSE(store_->Turn(rewound).ok());
  EXPECT_TRUE(store_->Turn(first).ok()) << "the fork needs it";
  EXPECT_TRUE(store_->Turn(started->turn).ok());
  ASSERT_EQ(CodeOf(CloseSession{.key = fork.key, .fence = {}, .now = At(60)}),
            absl::StatusCode::kOk);
  EXPECT_EQ(*store_->Collect(At(60)), 0u) << "a closed session's turns stay known";
  EXPECT_EQ(*store_->Collect(At(100)), 2u);
  EXPECT_THAT(*store_->Check(10), IsEmpty());
}

TEST_P(SessionStoreTest, ACollectedTurnStaysKnownWhileItsSessionIsOpen) {
  Open(NewSession(7));
  const TurnNumber rewound = CommitOne(*store_, key_, 1, 10);
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), kNoTurn, At(50)}), absl::StatusCode::kOk);
  EXPECT_EQ(*store_->Collect(At(50)), 0u) << "the head has left it only now";
  EXPECT_EQ(Path(rewound), std::vector<TurnNumber>{rewound});
  EXPECT_EQ(*store_->Collect(At(51)), 1u);
  EXPECT_EQ(*store_->Collect(At(51)), 0u) << "once";

  const auto turn = store_->Turn(key_, NewTurn(1).id);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(turn->state, TurnState::kCollected);
  EXPECT_EQ(turn->request_digest, NewTurn(1).request_digest);
  EXPECT_EQ(turn->request + turn->result, "");
  EXPECT_EQ(CodeOf(StartTurn{FenceOf(*store_, key_), NewTurn(1)}),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), rewound, At(60)}), absl::StatusCode::kNotFound);
  const auto refuse = [](const TurnRow&) { return ADD_FAILURE(), true; };
  EXPECT_EQ(store_->VisitPath(rewound, refuse).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->VisitPath(rewound + 1000, refuse).code(), absl::StatusCode::kNotFound);

  ASSERT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(70)}), absl::StatusCode::kOk);
  EXPECT_EQ(*store_->Collect(At(71)), 1u);
  EXPECT_EQ(store_->Turn(rewound).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SessionStoreTest, LinksAreTurnsWithoutRequestAndResult) {
  Open(NewSession(7));
  std::vector<TurnRow> turns;
  for (uint64_t i = 1; i <= 3; ++i) {
    turns.push_back(*store_->Turn(CommitOne(*store_, key_, i, 10 * i)));
    EXPECT_NE(turns.back().request + turns.back().result, "");
    turns.back().request.clear();
    turns.back().result.clear();
  }
  std::reverse(turns.begin(), turns.end());
  std::vector<TurnRow> links;
  const auto add = [&](const TurnRow& turn) {
    links.push_back(turn);
    return links.size() % 3 != 0;
  };
  ASSERT_TRUE(store_->VisitLinks(turns[0].number, add).ok());
  EXPECT_EQ(links, turns);
  EXPECT_EQ(store_->VisitLinks(turns[0].number + 1, add).code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), kNoTurn, At(3)}), absl::StatusCode::kOk);
  ASSERT_EQ(*store_->Collect(At(40)), 3u);
  EXPECT_EQ(store_->VisitLinks(turns[0].number, add).code(), absl::StatusCode::kNotFound);
}

// More turns than one query reads, some of them larger than what one query reads.
TEST_P(SessionStoreTest, ALongPathIsVisitedFromItsEnd) {
  std::vector<TurnRow> turns;
  for (uint64_t i = 1; i <= 600; ++i) {
    turns.push_back(NewTurn(i, i % 100 == 7 ? std::string(5 << 20, 'x') : "request"));
    turns.back().position = i;
  }
  ASSERT_EQ(CodeOf(ImportSession{NewSession(7), turns, nullptr}), absl::StatusCode::kOk);
  const TurnNumber head = store_->Session(key_)->head;
  for (const bool with_contents : {true, false}) {
    uint64_t position = 600, nested = 0;
    const auto visit = [&](const TurnRow& turn) {
      EXPECT_EQ(turn.position, position);
      EXPECT_EQ(turn.id.low, position);
      EXPECT_EQ(turn.request, with_contents ? turns[position - 1].request : "");
      // A visitor may read the store.
      if (position % 100 == 0 && store_->Turn(turn.number).ok()) ++nested;
      return --position > 0;
    };
    const absl::Status status =
        with_contents ? store_->VisitPath(head, visit) : store_->VisitLinks(head, visit);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(position, 0u);
    EXPECT_EQ(nested, 6u);
  }
  for (const uint64_t wanted : {1u, 2u, 17u, 18u, 273u, 274u}) {
    uint64_t visited = 0;
    EXPECT_TRUE(store_->VisitLinks(head, [&](const TurnRow&) { return ++visited < wanted; }).ok());
    EXPECT_EQ(visited, wanted);
  }
}

TEST_P(SessionStoreTest, ATurnThatCanStillBeCommittedIsNotCollected) {
  Open(NewSession(7));
  const TurnNumber head = CommitOne(*store_, key_, 1, 10);
  const auto lost = ApplyOne(*store_, StartTurn{FenceOf(*store_, key_), NewTurn(2)});
  ASSERT_TRUE(lost.ok());
  EXPECT_EQ(*store_->Collect(At(1000)), 0u);
  EXPECT_NE(CommitOne(*store_, key_, 3, 20), kNoTurn);
  EXPECT_EQ(*store_->Collect(At(1000)), 1u) << "the head has moved";
  EXPECT_EQ(store_->Turn(lost->turn)->state, TurnState::kCollected);
  EXPECT_EQ(store_->Turn(head)->state, TurnState::kCommitted);
}

// More turns than a driver looks at in one transaction, and a branch with a turn at each end.
TEST_P(SessionStoreTest, CollectsManyTurns) {
  constexpr uint64_t kMany = 2500;
  std::vector<Change> opens, starts, closes;
  for (uint64_t i = 0; i < kMany; ++i) {
    const SessionRow row = NewSession(100 + i);
    opens.push_back(OpenSession{row});
    starts.push_back(StartTurn{{row.key, 1, 1}, NewTurn(i)});
    closes.push_back(CloseSession{.key = row.key, .fence = {}, .now = At(5)});
  }
  Open(NewSession(7));
  ASSERT_NE(CommitOne(*store_, key_, 1, 10), kNoTurn);
  for (const auto& changes : {opens, starts, closes}) {
    for (const auto& result : store_->Apply(changes)) ASSERT_TRUE(result.ok()) << result.status();
  }
  ASSERT_NE(CommitOne(*store_, key_, 2, 20), kNoTurn);
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), kNoTurn, At(5)}), absl::StatusCode::kOk);
  EXPECT_EQ(*store_->Collect(At(6)), kMany + 2);
  EXPECT_THAT(*store_->Check(10), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Drivers, SessionStoreTest, AllDrivers(), NameOfDriver);

}  // namespace
}  // namespace longstream::store
