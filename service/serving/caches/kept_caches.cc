// Compares keys: a snapshot is good for a session if the session has the same history up to there.
#include "service/serving/caches/kept_caches.h"

#include <algorithm>
#include <map>
#include <utility>

#include "service/serving/caches/cache_keeper.h"
#include "service/serving/caches/cache_keys.h"

namespace longstream {
namespace {

// More turns than this away, a session computes its caches again.
constexpr size_t kMostTurnsAway = 256;

// Further forks of one turn whose snapshot is not written yet compute their caches again.
constexpr size_t kMostForks = 1024;

const ls_model_info& InfoOf(const Engine& engine) { return engine.model().backend().info(); }

bool IsOf(const store::SnapshotRow& row, const StoredPlace& place) {
  return row.turn == place.turn && row.cache == place.cache;
}

}  // namespace

KeptCaches::KeptCaches(std::shared_ptr<CacheKeeper> keeper, const std::shared_ptr<Session>& session,
                       std::string tenant, std::shared_ptr<Engine> engine, PresentTurn present_turn)
    : keeper_(std::move(keeper)),
      session_(session),
      tenant_(std::move(tenant)),
      engine_(std::move(engine)),
      present_turn_(std::move(present_turn)),
      host_charge_(session->host_memory()) {}

uint32_t KeptCaches::grid() const { return InfoOf(*engine_).prefill_grid; }

void KeptCaches::Count() {
  uint64_t bytes = BlockBytes(sizeof(KeptCaches)) + BlockBytes(known_) + BlockBytes(forks_);
  for (const store::SnapshotRow& row : known_) bytes += BlockBytes(row.cache);
  for (const auto& [cache, keys] : keys_) {
    bytes += NodeBytes<std::pair<std::string, GrowingKeys>>() + BlockBytes(cache) + keys.bytes();
  }
  host_charge_.Set(bytes);
}

std::vector<StoredPlace> KeptCaches::Find(const SessionState& state, uint64_t unchanged) {
  absl::MutexLock lock(&mutex_);
  std::map<std::string, std::vector<store::SnapshotRow>> by_cache;
  for (const store::SnapshotRow& row : known_) {
    if (row.position <= state.feed.end()) by_cache[row.cache].push_back(row);
  }
  std::vector<StoredPlace> places;
  const ls_model_info& info = InfoOf(*engine_);
  for (const auto& [cache, rows] : by_cache) {
    const std::string kernels = KernelsOf(cache, info.fingerprint);
    if (kernels.empty()) continue;
    std::vector<uint64_t> positions;
    for (const store::SnapshotRow& row : rows) positions.push_back(row.position);
    GrowingKeys& keys = keys_.try_emplace(cache, cache, info.prefill_grid).first->second;
    const std::vector<store::SegmentKey> fixed =
        keys.Fixed(positions, state.tokens, state.feed, unchanged);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (fixed[i] != rows[i].fixed) continue;
      StoredPlace place{rows[i].turn, rows[i].position, cache, ""};
      if (kernels != info.kernels) place.other_kernels = MixedKernels(kernels, info.kernels);
      places.push_back(std::move(place));
    }
  }
  // The others have not seen this history, so `unchanged` tells nothing about them the next time.
  std::erase_if(keys_, [&](const auto& keys) { return !by_cache.contains(keys.first); });
  Count();
  // Caches of the model's own kernels come first among those of one position.
  std::stable_sort(places.begin(), places.end(), [](const StoredPlace& a, const StoredPlace& b) {
    return std::pair(a.position, !a.other_kernels.empty()) <
           std::pair(b.position, !b.other_kernels.empty());
  });
  return places;
}

void KeptCaches::Reload(int64_t turn) {
  {
    absl::MutexLock lock(&mutex_);
    ++num_reloads_;
  }
  absl::StatusOr<std::vector<store::SnapshotRow>> rows =
      keeper_->store()->Snapshots(turn, kMostTurnsAway);
  absl::MutexLock lock(&mutex_);
  const std::vector<store::SnapshotRow> added =
      --num_reloads_ == 0 ? std::exchange(added_, {}) : added_;
  // Without the list, the caches are computed again.
  if (!rows.ok()) return;
  std::stable_sort(rows->begin(), rows->end(),
                   [](const store::SnapshotRow& a, const store::SnapshotRow& b) {
                     return a.position < b.position;
                   });
  known_ = *std::move(rows);
  for (const store::SnapshotRow& row : added) Add(row);
  last_position_ = known_.empty() ? 0 : known_.back().position;
  Count();
}

void KeptCaches::Follow(StoredCaches& source, int64_t turn) {
  auto& from = static_cast<KeptCaches&>(source);
  absl::MutexLock lock(&from.mutex_);
  std::erase_if(from.forks_, [](const Fork& fork) { return fork.caches.expired(); });
  if (from.forks_.size() < kMostForks) from.forks_.push_back({weak_from_this(), turn});
  from.Count();
}

void KeptCaches::CopyKeys(const StoredCaches& source) {
  const auto& from = static_cast<const KeptCaches&>(source);
  std::map<std::string, GrowingKeys> keys;
  {
    absl::MutexLock lock(&from.mutex_);
    keys = from.keys_;
  }
  absl::MutexLock lock(&mutex_);
  keys_ = std::move(keys);
}

void KeptCaches::Add(const store::SnapshotRow& row) {
  std::erase_if(known_, [&](const store::SnapshotRow& known) {
    return known.turn == row.turn && known.cache == row.cache;
  });
  const auto behind = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
    return known.position > row.position;
  });
  known_.insert(behind, row);
}

std::vector<std::shared_ptr<KeptCaches>> KeptCaches::TakeForks(store::TurnNumber turn) {
  std::vector<std::shared_ptr<KeptCaches>> found;
  // No snapshot of an earlier turn is written after one of a later turn.
  std::erase_if(forks_, [&](const Fork& fork) {
    if (fork.turn == turn) found.push_back(fork.caches.lock());
    return fork.turn <= turn;
  });
  std::erase(found, nullptr);
  return found;
}

uint64_t KeptCaches::LastPosition() const {
  absl::MutexLock lock(&mutex_);
  return last_position_;
}

std::optional<store::SnapshotRow> KeptCaches::RowOf(const StoredPlace& place) const {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const auto& known) { return IsOf(known, place); });
  if (found == known_.end()) return std::nullopt;
  return *found;
}

void KeptCaches::Fill(const StoredPlace& place, std::shared_ptr<CacheFill> fill, FillDone done) {
  std::optional<store::SnapshotRow> row = RowOf(place);
  if (!row.has_value()) return done({absl::NotFoundError("it has been removed"), 0, {}, {}});
  keeper_->Fill({shared_from_this(), *std::move(row), std::move(fill), std::move(done)});
}

void KeptCaches::Reject(const StoredPlace& place) {
  const std::optional<store::SnapshotRow> row = RowOf(place);
  if (row.has_value()) Forget(*row);
}

bool KeptCaches::BeginSave() { return keeper_->BeginSave(shared_from_this()); }

void KeptCaches::CancelSave() { keeper_->EndSave(shared_from_this()); }

void KeptCaches::SkipSave() { keeper_->SaveWaiting(); }

void KeptCaches::Save(SavedCaches saved) {
  const std::optional<Turn> turn = present_turn_();
  const ls_model_info& info = InfoOf(*engine_);
  store::SnapshotRow row;
  row.position = saved.tokens.size();
  row.cache =
      CacheName(info.fingerprint, saved.other_kernels.empty() ? info.kernels : saved.other_kernels);
  bool is_new = turn.has_value() && turn->position == saved.history_size;
  if (is_new) {
    row.turn = turn->number;
    absl::MutexLock lock(&mutex_);
    is_new = std::none_of(known_.begin(), known_.end(), [&](const store::SnapshotRow& known) {
      return known.turn == row.turn && known.cache == row.cache && known.position == row.position;
    });
  }
  SaveJob job{shared_from_this(), std::move(row), std::move(saved), HostCharge(host_memory())};
  const uint64_t bytes = job.saved.snapshot.info().fixed_bytes + BlockBytes(job.saved.tokens) +
                         BlockBytes(job.saved.feed.block());
  if (is_new && job.charge.Add(bytes).ok() && keeper_->Add(&job)) return;
  NotSaved(job.saved.snapshot.info().span_begin);
  engine_->Free(std::move(job.saved.snapshot));
  CancelSave();
}

bool KeptCaches::RequestSave() {
  if (session_.expired()) return false;
  engine_->SaveCaches(session_, shared_from_this());
  return true;
}

bool KeptCaches::writes_all() const {
  absl::MutexLock lock(&mutex_);
  return writes_all_;
}

void KeptCaches::Saved(const store::SnapshotRow& row,
                       const std::vector<store::TurnNumber>& dropped) {
  std::vector<std::shared_ptr<KeptCaches>> forks;
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(known_, [&](const store::SnapshotRow& known) {
      return std::find(dropped.begin(), dropped.end(), known.turn) != dropped.end();
    });
    Add(row);
    if (num_reloads_ > 0) added_.push_back(row);
    last_position_ = row.position;
    writes_all_ = false;
    forks = TakeForks(row.turn);
    Count();
  }
  for (const std::shared_ptr<KeptCaches>& fork : forks) fork->Learn(row);
}

void KeptCaches::Learn(const store::SnapshotRow& row) {
  absl::MutexLock lock(&mutex_);
  Add(row);
  if (num_reloads_ > 0) added_.push_back(row);
  last_position_ = known_.back().position;
  Count();
}

void KeptCaches::NotSaved(uint64_t from) { engine_->ForgetSpans(session_, from); }

void KeptCaches::Forget(const store::SnapshotRow& row) {
  absl::MutexLock lock(&mutex_);
  std::erase(known_, row);
  writes_all_ = true;
  last_position_ = known_.empty() ? 0 : known_.back().position;
  Count();
}

}  // namespace longstream
