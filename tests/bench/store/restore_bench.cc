// How long the caches of a session of many small turns take to be read from the store, with chains
// of spans that are joined at different lengths; and how long the keys of its history take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/engine/policy/join_spans.h"
#include "service/models/backend_model.h"
#include "service/serving/caches/cache_keys.h"
#include "service/serving/caches/snapshot_io.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

struct Settings {
  std::string plugin;
  std::string model;
  uint64_t turns = 200;
  uint64_t tokens = 64;  // of each turn
};

double MillisecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double MedianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

store::SegmentKey KeyOf(uint64_t begin, uint64_t end) { return store::NewKey(begin << 32 | end); }

// Reads the tokens of a turn.
void Feed(BackendModel& model, Sequence& sequence, uint64_t tokens) {
  sequence.Reserve(tokens).IgnoreError();
  const std::vector<int32_t> ids(tokens, 7);
  ls_batch_entry entry{};
  entry.sequence = sequence.handle();
  entry.tokens = ids.data();
  entry.num_tokens = static_cast<uint32_t>(tokens);
  const auto ticket = model.Submit({&entry, 1});
  model.Wait(ticket.value()).IgnoreError();
}

// Writes the snapshots of all turns, and joins spans when there are `most`. Returns the last one.
store::SnapshotRow Write(const Settings& settings, BackendModel& model, store::SqliteStore& store,
                         uint64_t most, uint64_t* bytes) {
  store::ApplyOne(store, store::OpenSession{store::NewSession(7)}).IgnoreError();
  Sequence sequence = *model.CreateSequence();
  std::vector<uint64_t> ends;
  store::SnapshotRow row;
  std::vector<store::TurnNumber> before;
  for (uint64_t turn = 1; turn <= settings.turns; ++turn) {
    Feed(model, sequence, settings.tokens);
    const uint64_t position = sequence.position();
    const size_t kept = SpansToKeep(ends, position, most);
    const uint64_t begin = kept > 0 ? ends[kept - 1] : 0;
    Snapshot snapshot = *model.BeginSnapshot(sequence, begin);
    NewSegments segments;
    row.position = position;
    if (snapshot.info().span_end > begin) {
      store::SegmentRow span{.key = KeyOf(begin, snapshot.info().span_end),
                             .kind = store::SegmentKind::kSpan,
                             .begin = begin,
                             .end = snapshot.info().span_end};
      if (kept > 0) span.previous = KeyOf(kept > 1 ? ends[kept - 2] : 0, begin);
      row.span = span.key;
      segments.span = span;
      ends.resize(kept);
      ends.push_back(span.end);
    }
    row.fixed = store::NewKey(~position);
    segments.fixed = store::SegmentRow{
        .key = row.fixed, .kind = store::SegmentKind::kFixed, .begin = position, .end = position};
    auto writer = store.WriteSegments();
    *bytes += *WriteSegments(snapshot, segments, **writer, [] { return absl::OkStatus(); });
    const auto written = (*writer)->Finish();
    const auto session = store.Session(store::NewSession(7).key);
    const store::Fence fence{session->key, session->epoch, session->version};
    const auto started = store::ApplyOne(store, store::StartTurn{fence, store::NewTurn(turn)});
    store::CommitTurn commit;
    commit.fence = {session->key, session->epoch, session->version + 1};
    commit.turn = row.turn = started->turn;
    commit.position = position;
    commit.now = store::At(2);
    store::ApplyOne(store, commit).IgnoreError();
    const absl::Status added =
        store::ApplyOne(store, store::AddSnapshot{"", row, *written, before}).status();
    if (!added.ok()) std::fprintf(stderr, "%s\n", std::string(added.message()).c_str());
    before = {row.turn};
  }
  return row;
}

void MeasureRestore(const Settings& settings, BackendModel& model, uint64_t most) {
  const TemporaryDirectory temporary;
  auto store = *store::SqliteStore::Open(temporary.string() + "/store", {});
  uint64_t bytes = 0;
  const store::SnapshotRow row = Write(settings, model, *store, most, &bytes);
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    times.push_back(MillisecondsOf([&] {
      CacheFill fill(*model.BeginImport(row.position));
      const auto filled = ReadSnapshot(store.get(), "", row, fill);
      SnapshotImport import = fill.Take(absl::OkStatus());
      const absl::StatusOr<Sequence> sequence = import.Attach();
      if (!filled.status.ok() || !sequence.ok()) std::fprintf(stderr, "the restore failed\n");
    }));
  }
  std::printf("joined at %4llu spans: %3zu segments, read in %6.2f ms; %6.1f MB written\n",
              static_cast<unsigned long long>(most), store->Segments("", row)->size(),
              MedianOf(times), static_cast<double>(bytes) / 1e6);
}

// A history of many tokens, of which the last turn is new.
void MeasureKeys(uint64_t tokens, uint64_t turn) {
  std::vector<int32_t> ids(tokens, 7);
  class Feed feed;
  std::vector<uint64_t> positions;
  for (uint64_t end = tokens - 8 * turn; end <= tokens; end += turn) {
    feed.Add(end - turn / 2, /*is_decode=*/false, 64);
    feed.Add(end, /*is_decode=*/true, 64);
    positions.push_back(end);
  }
  std::vector<double> whole, rest;
  for (int i = 0; i < 21; ++i) {
    GrowingKeys keys("cache", 64);
    whole.push_back(MillisecondsOf([&] { keys.Fixed(positions, ids, feed, 0); }));
    GrowingKeys grown("cache", 64);
    grown.Fixed(std::span(positions).first(positions.size() - 1), ids, feed, 0);
    rest.push_back(MillisecondsOf([&] { grown.Fixed(positions, ids, feed, tokens - turn); }));
  }
  std::printf("keys of %llu tokens: %.3f ms; after a turn of %llu: %.3f ms\n",
              static_cast<unsigned long long>(tokens), MedianOf(whole),
              static_cast<unsigned long long>(turn), MedianOf(rest));
}

int Main(int argc, char** argv) {
  CLI::App app("Measures restores of sessions of many small turns.");
  Settings settings;
  app.add_option("plugin", settings.plugin, "the backend's file")->required();
  app.add_option("model", settings.model, "the model's directory")->required();
  app.add_option("--turns", settings.turns, "how many turns the session has");
  app.add_option("--tokens", settings.tokens, "tokens of a turn");
  CLI11_PARSE(app, argc, argv);
  const Host host({}, nullptr);
  BackendModel::Options options;
  options.directory = settings.model;
  options.options_json = R"({"context_limit": 131072})";
  const auto plugin = Plugin::Load(settings.plugin);
  const auto model = BackendModel::Open(plugin.value(), options, &host);
  for (const uint64_t most : {1024, 64, 32, 16, 8, 4}) {
    MeasureRestore(settings, *model.value(), most);
  }
  for (const uint64_t tokens : {16384, 131072}) MeasureKeys(tokens, 512);
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) { return longstream::Main(argc, argv); }
