// Saves the caches of sessions to the store, at the ends of turns.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "service/engine/engine.h"
#include "service/engine/policy/join_spans.h"

namespace longstream {

bool Engine::BeginSave(const std::shared_ptr<Session>& session) {
  StoredCaches* const stored = session->stored_caches();
  const BackendModel& backend = model_->backend();
  SessionCaches& caches = session->caches();
  if (stored == nullptr || !backend.CanSnapshot() || !caches.sequence.valid()) return false;
  const SessionState& state = session->state();
  const uint64_t position = caches.sequence.position();
  // The caches of an aborted turn may have read less than the feed says.
  if (position == 0 || position != state.feed.end()) return false;
  if (!stored->BeginSave()) return true;
  const size_t kept = SpansToKeep(caches.span_ends, position);
  const uint64_t from = kept > 0 ? caches.span_ends[kept - 1] : 0;
  absl::StatusOr<Snapshot> snapshot = MakeSnapshot(caches.sequence, from);
  if (!snapshot.ok()) {
    stored->CancelSave();
    return true;
  }
  SavedCaches saved;
  saved.tokens.assign(state.tokens.begin(),
                      state.tokens.begin() + static_cast<std::ptrdiff_t>(position));
  saved.feed = state.feed;
  saved.span_ends.assign(caches.span_ends.begin(),
                         caches.span_ends.begin() + static_cast<std::ptrdiff_t>(kept));
  saved.other_kernels = caches.other_kernels;
  saved.history_size = state.tokens.size();
  const ls_snapshot_info& info = snapshot->info();
  if (info.span_end > info.span_begin) {
    caches.span_ends = saved.span_ends;
    caches.span_ends.push_back(info.span_end);
  }
  saved.snapshot = *std::move(snapshot);
  stored->Save(std::move(saved));
  return true;
}

void Engine::SaveCaches(std::weak_ptr<Session> session, std::shared_ptr<StoredCaches> stored) {
  Post([this, weak = std::move(session), stored = std::move(stored)] {
    const std::shared_ptr<Session> found = weak.lock();
    if (found == nullptr) return stored->SkipSave();
    const bool runs = std::any_of(running_.begin(), running_.end(), [&](const auto& turn) {
      return !turn->ended() && &turn->session() == found.get();
    });
    if (found->closed() || runs || !BeginSave(found)) stored->SkipSave();
  });
}

void Engine::ForgetSpans(std::weak_ptr<Session> session, uint64_t from) {
  Post([weak = std::move(session), from] {
    const std::shared_ptr<Session> found = weak.lock();
    if (found == nullptr) return;
    std::erase_if(found->caches().span_ends, [from](uint64_t end) { return end > from; });
  });
}

}  // namespace longstream
