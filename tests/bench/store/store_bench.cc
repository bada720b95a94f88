// How long a store with many sessions takes to open, and how fast it takes changes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

constexpr uint64_t kGroup = 1000;  // changes in a transaction while the store is filled
// Each session has a snapshot of one span and one fixed block. Small ones are rows of the log; the
// fixed block of every 16th session is so large that it is a file.
constexpr uint64_t kSessionsPerFile = 16;
constexpr size_t kRowBytes = 1024;
constexpr size_t kFileBytes = 80 * 1024;

template <typename Work>
double MillisecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::unique_ptr<SqliteStore> Open(const std::string& directory) {
  auto store = SqliteStore::Open(directory, {});
  if (!store.ok()) std::fprintf(stderr, "%s\n", std::string(store.status().message()).c_str());
  return store.ok() ? *std::move(store) : nullptr;
}

// The change that gives the turn of session `id` a snapshot. Nothing, if it cannot be written.
std::optional<Change> SnapshotOf(SqliteStore& store, uint64_t id, TurnNumber turn) {
  const uint64_t span = 2 * id, fixed = 2 * id + 1;
  const size_t fixed_bytes = id % kSessionsPerFile == 0 ? kFileBytes : kRowBytes;
  const auto written = WriteAll(
      store, {{NewSpan(span, 0, std::nullopt), kRowBytes}, {NewFixed(fixed, 64), fixed_bytes}});
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", std::string(written.status().message()).c_str());
    return std::nullopt;
  }
  const SnapshotRow row = {
      .turn = turn, .cache = "cache", .position = 64, .span = NewKey(span), .fixed = NewKey(fixed)};
  return AddSnapshot{"", row, *written, {}};
}

// Adds sessions with one committed turn each, and its snapshot. Their requests and results have
// 2 KiB.
void Fill(SqliteStore& store, uint64_t num_sessions) {
  for (uint64_t begin = 1; begin <= num_sessions; begin += kGroup) {
    std::vector<Change> opens, starts, commits;
    for (uint64_t id = begin; id < begin + kGroup; ++id) {
      opens.emplace_back(OpenSession{NewSession(id)});
      StartTurn start;
      start.fence = {NewSession(id).key, 1, 1};
      start.turn = NewTurn(id, std::string(1024, 'q'));
      CommitTurn commit;
      commit.fence = {NewSession(id).key, 1, 2};
      commit.position = 10;
      commit.result = std::string(1024, 'a');
      commit.now = At(2);
      starts.emplace_back(std::move(start));
      commits.emplace_back(std::move(commit));
    }
    store.Apply(opens);
    const auto started = store.Apply(starts);
    for (size_t i = 0; i < commits.size(); ++i) {
      std::get<CommitTurn>(commits[i]).turn = started[i]->turn;
    }
    store.Apply(commits);
    std::vector<Change> snapshots;
    for (size_t i = 0; i < commits.size(); ++i) {
      auto snapshot = SnapshotOf(store, begin + i, started[i]->turn);
      if (snapshot.has_value()) snapshots.push_back(*std::move(snapshot));
    }
    for (const auto& applied : store.Apply(snapshots)) {
      if (!applied.ok()) std::fprintf(stderr, "%s\n", applied.status().ToString().c_str());
    }
  }
}

// The median time of a change that waits alone for its fsync.
double MedianOfSingleChanges(SqliteStore& store, uint64_t first_id) {
  std::vector<double> times;
  for (uint64_t i = 0; i < 200; ++i) {
    times.push_back(MillisecondsOf(
        [&] { ApplyOne(store, OpenSession{NewSession(first_id + i)}).IgnoreError(); }));
  }
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

// Changes a second, if all are submitted at once and share transactions.
double ChangesPerSecond(SqliteStore& store, uint64_t first_id) {
  constexpr int kChanges = 10'000;
  CommitQueue queue(&store, {});
  absl::BlockingCounter done(kChanges);
  const double milliseconds = MillisecondsOf([&] {
    for (uint64_t i = 0; i < kChanges; ++i) {
      queue.Submit(OpenSession{NewSession(first_id + i)},
                   [&](const absl::StatusOr<Applied>&) { done.DecrementCount(); });
    }
    done.Wait();
  });
  return kChanges / milliseconds * 1000;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures a store of sessions.");
  uint64_t num_sessions = 100'000;
  std::string where;
  app.add_option("--sessions", num_sessions, "how many sessions the store has");
  app.add_option("--directory", where, "where the store is made; empty: a temporary directory");
  CLI11_PARSE(app, argc, argv);
  num_sessions = (num_sessions + kGroup - 1) / kGroup * kGroup;
  const TemporaryDirectory temporary;
  const std::string directory = where.empty() ? temporary.string() + "/store" : where;
  auto store = Open(directory);
  if (store == nullptr) return 1;
  std::printf("fill with %llu sessions: %.0f ms\n", static_cast<unsigned long long>(num_sessions),
              MillisecondsOf([&] { Fill(*store, num_sessions); }));
  std::printf("close: %.1f ms\n", MillisecondsOf([&] { store.reset(); }));
  std::printf("open: %.1f ms\n", MillisecondsOf([&] { store = Open(directory); }));
  if (store == nullptr) return 1;
  std::printf("first 1000 sessions: %.1f ms\n",
              MillisecondsOf([&] { store->Sessions("", {}, 1000, "").IgnoreError(); }));
  std::printf("one session and its turn: %.2f ms\n", MillisecondsOf([&] {
                store->Turn(store->Session(NewSession(num_sessions / 2).key)->head).IgnoreError();
              }));
  std::printf("collect, nothing to do: %.0f ms\n",
              MillisecondsOf([&] { store->Collect(At(1000)).IgnoreError(); }));
  std::printf("check: %.0f ms\n", MillisecondsOf([&] { store->Check(10).IgnoreError(); }));
  std::printf("one change, median: %.2f ms\n", MedianOfSingleChanges(*store, num_sessions + 1));
  std::printf("changes together: %.0f per second\n", ChangesPerSecond(*store, num_sessions + 1000));
  return 0;
}

}  // namespace
}  // namespace longstream::store

int main(int argc, char** argv) { return longstream::store::Main(argc, argv); }
