// Files of a store with random damage. Opening and reading them ends with an error or with rows
// that were written once; it never crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/fuzz_trials.h"
#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::Contains;
using Files = std::map<std::string, std::string>;
using Random = std::mt19937_64;

constexpr uint64_t kSessions = 6;
// Bytes of spans, which are files, and of fixed blocks, which are rows.
constexpr size_t kSpanBytes = 70'000;
constexpr size_t kFixedBytes = 3000;

// A store with some history, and every row that it has ever had.
struct History {
  Files files;
  Files segment_files;
  std::vector<SnapshotRow> snapshots;
  std::vector<SegmentRow> segment_rows;
  std::vector<SessionRow> sessions;
  std::vector<TurnRow> turns;

  void Remember(SessionStore& store) {
    const auto rows = store.Sessions("", {}, 100, "");
    ASSERT_TRUE(rows.ok()) << rows.status();
    sessions.insert(sessions.end(), rows->begin(), rows->end());
    for (TurnNumber number = 1; number <= 40; ++number) {
      const auto turn = store.Turn(number);
      if (turn.ok()) turns.push_back(*turn);
      const auto of_turn = store.Snapshots(number, 1);
      if (!of_turn.ok()) continue;
      for (const SnapshotRow& snapshot : *of_turn) {
        const auto segments = store.Segments("", snapshot);
        ASSERT_TRUE(segments.ok()) << segments.status();
        snapshots.push_back(snapshot);
        segment_rows.insert(segment_rows.end(), segments->begin(), segments->end());
      }
    }
  }
};

// Adds a snapshot of the session's turn. Every session has one span for each round.
absl::Status AddSnapshotOf(SessionStore& store, uint64_t session, uint64_t round, TurnNumber turn) {
  const auto key = [&](uint64_t of_round) { return 100 * session + of_round; };
  const auto previous = round == 0 ? std::nullopt : std::optional(NewKey(key(round - 1)));
  return AddOne(store, turn, 1000 + key(round), NewKey(key(round)),
                {{NewSpan(key(round), round, previous), kSpanBytes},
                 {NewFixed(1000 + key(round), 64 * round), kFixedBytes}});
}

// The power fails with changes in the log, so both files have content.
History Write(FaultyDisk& disk, FaultyDirectory& segments, const std::string& directory,
              const Sealing& sealing) {
  History history;
  {
    const auto store = SqliteStore::Open(
        directory,
        {.vfs = disk.name(), .segments = [&] { return segments.View(); }, .sealing = sealing});
    for (int round = 0; round < 3; ++round) {
      for (uint64_t id = 1; id <= kSessions; ++id) {
        const SessionKey key = NewSession(id).key;
        if (round == 0) {
          EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(id)}).ok());
          history.Remember(**store);
          EXPECT_TRUE(ApplyOne(**store, StartTurn{{key, 1, 1}, NewTurn(100)}).ok());
          history.Remember(**store);
        }
        CommitTurn commit;
        const auto started = ApplyOne(
            **store, StartTurn{FenceOf(**store, key), NewTurn(static_cast<uint64_t>(round))});
        history.Remember(**store);
        commit.fence = FenceOf(**store, key);
        commit.turn = started.ok() ? started->turn : kNoTurn;
        commit.position = 10 * id;
        commit.now = At(2);
        EXPECT_TRUE(ApplyOne(**store, commit).ok());
        EXPECT_TRUE(AddSnapshotOf(**store, id, static_cast<uint64_t>(round), commit.turn).ok());
        history.Remember(**store);
      }
    }
    disk.FailAfter(0);
  }
  history.files = disk.Files();
  history.segment_files = segments.Files();
  return history;
}

void Spoil(Random& random, std::string* bytes) {
  if (bytes->empty()) return;
  const size_t at = random() % bytes->size();
  const size_t size = std::min<size_t>(1 + random() % 600, bytes->size() - at);
  switch (random() % 5) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
      break;
    case 1:
      for (size_t i = at; i < at + size; ++i) (*bytes)[i] = static_cast<char>(random());
      break;
    case 2:
      std::fill_n(bytes->begin() + static_cast<ptrdiff_t>(at), size, '\0');
      break;
    case 3: {  // a range of the file in another place
      const std::string range = bytes->substr(random() % bytes->size(), size);
      bytes->replace(at, range.size(), range);
      break;
    }
    default:
      bytes->resize(at);
  }
}

void ReadSnapshot(SqliteStore& store, const SnapshotRow& snapshot, const History& history) {
  EXPECT_THAT(history.snapshots, Contains(snapshot));
  const auto rows = store.Segments("", snapshot);
  if (!rows.ok()) return;
  for (const SegmentRow& row : *rows) {
    EXPECT_THAT(history.segment_rows, Contains(row));
    const auto bytes = ReadAll(store, "", row.key);
    if (bytes.ok()) {
      const size_t size = row.kind == SegmentKind::kSpan ? kSpanBytes : kFixedBytes;
      EXPECT_TRUE(*bytes == SegmentBytes(row.key, size));
    }
  }
}

void Read(SqliteStore& store, const History& history) {
  const auto sessions = store.Sessions("", {}, 100, "");
  if (sessions.ok()) {
    for (const SessionRow& row : *sessions) EXPECT_THAT(history.sessions, Contains(row));
  }
  for (uint64_t id = 1; id <= kSessions; ++id) {
    const auto session = store.Session(NewSession(id).key);
    if (session.ok()) {
      EXPECT_THAT(history.sessions, Contains(*session));
    }
    store.Turn(NewSession(id).key, NewTurn(id).id).IgnoreError();
  }
  for (TurnNumber number = 0; number <= 40; ++number) {
    const auto turn = store.Turn(number);
    if (turn.ok()) {
      EXPECT_THAT(history.turns, Contains(*turn));
    }
    store.VisitPath(number, [](const TurnRow&) { return true; }).IgnoreError();
    const auto snapshots = store.Snapshots(number, 1);
    if (!snapshots.ok()) continue;
    for (const SnapshotRow& snapshot : *snapshots) ReadSnapshot(store, snapshot, history);
  }
  store.Expired(At(1'000'000), 100).IgnoreError();
  store.Check(100).IgnoreError();
}

// The changes may fail; the store must not.
void Change(SqliteStore& store) {
  for (uint64_t id = 1; id <= kSessions; ++id) {
    const SessionKey key = NewSession(id).key;
    const TurnNumber turn = CommitOne(store, key, 500 + id, 99);
    AddSnapshotOf(store, id, id % 4, turn).IgnoreError();
    ApplyOne(store, MoveHead{FenceOf(store, key), kNoTurn, At(5)}).IgnoreError();
    ApplyOne(store, OpenSession{NewSession(900 + id)}).IgnoreError();
    if (id % 2 == 0) {
      ApplyOne(store, CloseSession{.key = key, .fence = {}, .now = At(6)}).IgnoreError();
    }
  }
  store.Collect(At(1000)).IgnoreError();
  store
      .CollectSegments(
          {.now = At(0), .max_bytes = 5 * kSpanBytes, .remove_after = absl::ZeroDuration()})
      .IgnoreError();
  store.Compact().IgnoreError();
}

// Whether segments are sealed.
class StoreFuzzTest : public testing::TestWithParam<bool> {};

TEST_P(StoreFuzzTest, DamagedFilesNeverGiveRowsThatWereNotWritten) {
  Random random(29);
  FuzzTrials trials(300);
  const TemporaryDirectory directory;
  const Sealing sealing = GetParam() ? SealedWith("a") : Sealing();
  FaultyDisk first;
  FaultyDirectory first_segments;
  const History history = Write(first, first_segments, directory.string(), sealing);
  ASSERT_EQ(history.files.size(), 2u);
  ASSERT_EQ(history.segment_files.size(), 3 * kSessions);
  int opened = 0;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    FaultyDisk disk;
    FaultyDirectory segments;
    Files files = history.files, segment_files = history.segment_files;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      Files& some = random() % 4 == 0 ? segment_files : files;
      Spoil(random,
            &std::next(some.begin(), static_cast<ptrdiff_t>(random() % some.size()))->second);
    }
    disk.SetFiles(files);
    for (const auto& [name, bytes] : segment_files) segments.Put(name, bytes, At(0));
    const auto store = SqliteStore::Open(
        directory.string(),
        {.vfs = disk.name(), .segments = [&] { return segments.View(); }, .sealing = sealing});
    if (!store.ok()) continue;
    ++opened;
    Read(**store, history);
    Change(**store);
  }
  EXPECT_GT(opened, trials.count() / 20) << "most damage was refused at the start";
}

INSTANTIATE_TEST_SUITE_P(Segments, StoreFuzzTest, testing::Bool());

}  // namespace
}  // namespace longstream::store
