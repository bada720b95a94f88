// Adds tokens to a history and rolls it back.
#include "service/engine/turn/turn_history.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/engine/policy/turn_demand.h"

namespace longstream {
namespace {

// The last token of a history is never read (SessionCaches::sequence).
uint64_t Readable(uint64_t size) { return size > 0 ? size - 1 : 0; }

// Truncates a sequence without a rollback point. Returns whether it reached the position.
bool CanGoBack(Sequence& sequence, uint64_t position) {
  const absl::StatusOr<uint64_t> restored = sequence.Truncate(position);
  return restored.ok() && *restored == position;
}

// The tokens that are read again if the caches stand at `position`.
Replay ReplayFrom(const SessionState& state, uint64_t position) {
  const uint64_t tokens = state.feed.end() - std::min(state.feed.end(), position);
  const uint64_t decoded =
      state.recompute == Recompute::kFast ? 0 : state.feed.decode_tokens(position);
  return {tokens - decoded, decoded};
}

}  // namespace

TurnHistory::TurnHistory(TurnLease lease, BackendModel* backend,
                         std::optional<uint64_t> kept_tokens)
    : lease_(std::move(lease)),
      backend_(backend),
      start_(kept_tokens.value_or(lease_.state().tokens.size())),
      cut_charge_(lease_.session()->host_memory()) {}

std::optional<uint64_t> TurnHistory::cached() const {
  if (!sequence().valid()) return std::nullopt;
  return sequence().position();
}

std::optional<SessionBytes> TurnHistory::bytes() const {
  if (!sequence().valid()) return std::nullopt;
  return lease_.Bytes();
}

uint64_t TurnHistory::unread() const { return size() - std::min(size(), sequence().position()); }

uint64_t TurnHistory::recomputed_tokens() const {
  const uint64_t computed = caches().computed_tokens;
  return computed - std::min(computed, sequence().position());
}

absl::Status TurnHistory::EnsureCaches(bool* made) {
  *made = !sequence().valid();
  if (!*made) return absl::OkStatus();
  absl::StatusOr<Sequence> fresh = backend_->CreateSequence();
  if (!fresh.ok()) return fresh.status();
  sequence() = *std::move(fresh);
  if (!caches().other_kernels.empty()) {
    // The keys of the spans name the kernels.
    caches().other_kernels.clear();
    caches().span_ends.clear();
  }
  if (caches().evicted) {
    caches().recompute_reason =
        caches().restored ? "the session was restored from the store"
                          : "the caches were evicted because other sessions needed the memory";
  }
  return absl::OkStatus();
}

Replay TurnHistory::SavedBy(uint64_t position) const {
  const Replay whole = ReplayFrom(session_state(), cached().value_or(0));
  const Replay rest = ReplayFrom(session_state(), position);
  return {whole.prefill_tokens - std::min(whole.prefill_tokens, rest.prefill_tokens),
          whole.decode_tokens - std::min(whole.decode_tokens, rest.decode_tokens)};
}

absl::Status TurnHistory::Attach(const StoredPlace& place, std::vector<uint64_t> span_ends,
                                 SnapshotImport import, MonotonicTime now) {
  absl::StatusOr<Sequence> attached = import.Attach();
  if (!attached.ok()) return attached.status();
  if (attached->position() != place.position) {
    return absl::DataLossError(absl::StrCat("the snapshot is of position ", attached->position(),
                                            ", its row of ", place.position));
  }
  sequence() = *std::move(attached);
  if (caches().evicted) {
    caches().recompute_reason =
        absl::StrCat("the snapshot in the store is of the earlier position ", place.position);
  }
  // A span may have more tokens than the snapshot needs.
  std::erase_if(span_ends, [&](uint64_t end) { return end > place.position; });
  caches().span_ends = place.other_kernels.empty() ? std::move(span_ends) : std::vector<uint64_t>();
  caches().other_kernels = place.other_kernels;
  caches().restored_at = now;
  if (!NeedsReplay()) FinishReplay(now);
  return absl::OkStatus();
}

FoundCaches TurnHistory::TakeFound(uint64_t from_store) {
  const uint64_t position = sequence().position();
  const uint64_t from_peer = std::min(std::exchange(caches().peer_position, 0), position);
  if (from_store > 0) return {0, from_store, RestoreSource::kStore};
  if (from_peer > 0) return {position - from_peer, from_peer, RestoreSource::kPeer};
  return {position, 0, RestoreSource::kNone};
}

void TurnHistory::PlanReplay() {
  NoteFeed();
  if (NeedsReplay() && state().recompute == Recompute::kFast) {
    feed_begin_ = sequence().position();
    caches().ForgetFrom(feed_begin_);
    state().feed.ReadAsPrefill(sequence().position(), backend_->info().prefill_grid);
  }
}

void TurnHistory::FinishReplay(MonotonicTime now) {
  caches().evicted = caches().restored = false;
  caches().restored_at = now;
}

void TurnHistory::Record(const StepPart& part) {
  state().feed.Add(part.end, part.is_decode, backend_->info().prefill_grid);
}

void TurnHistory::Cut() {
  if (start_ == size()) return;
  const auto at = static_cast<std::ptrdiff_t>(start_);
  cut_tokens_.assign(state().tokens.begin() + at, state().tokens.end());
  cut_generated_.assign(state().generated.begin() + at, state().generated.end());
  cut_feed_ = state().feed;
  cut_computed_tokens_ = caches().computed_tokens;
  cut_lowest_rewind_ = caches().lowest_rewind;
  cut_charge_.Set(BlockBytes(cut_tokens_) + BlockBytes(cut_generated_) +
                  BlockBytes(cut_feed_.block()));
  std::string reason = absl::StrCat("the turn replaced the text from position ", start_, " on");
  const uint64_t left = Readable(start_);
  bool goes_back = left == 0 || left >= caches().lowest_rewind;
  caches().ForgetFrom(left);
  if (goes_back && sequence().valid() && sequence().position() > left) {
    goes_back = RollBack(start_, std::move(reason));
    // RollBack has found the lowest position if it failed.
    cut_lowest_rewind_ = caches().lowest_rewind;
  } else {
    state().tokens.resize(start_);
    state().generated.resize(start_);
    state().feed.Truncate(left);
    caches().computed_tokens = std::min(caches().computed_tokens, left);
    caches().recompute_reason = std::move(reason);
  }
  if (goes_back) return;
  // The history is read anew, as one prefill.
  DropCaches();
  caches().ForgetFrom(0);
  state().feed.Truncate(0);
  caches().lowest_rewind = 0;
}

void TurnHistory::PutBack() {
  if (cut_tokens_.empty()) return;
  state().tokens.insert(state().tokens.end(), cut_tokens_.begin(), cut_tokens_.end());
  state().generated.insert(state().generated.end(), cut_generated_.begin(), cut_generated_.end());
  state().feed = std::exchange(cut_feed_, Feed());
  caches().computed_tokens = cut_computed_tokens_;
  caches().lowest_rewind = cut_lowest_rewind_;
  cut_tokens_ = std::vector<int32_t>();
  cut_generated_ = std::vector<bool>();
  cut_charge_.Set(0);
}

void TurnHistory::Append(std::span<const int32_t> tokens, bool generated) {
  state().tokens.insert(state().tokens.end(), tokens.begin(), tokens.end());
  state().generated.resize(size(), generated);
  lease_.CountHost();
}

bool TurnHistory::RollBack(uint64_t size, std::string reason) {
  state().tokens.resize(size);
  state().generated.resize(size);
  Feed& feed = state().feed;
  if (!sequence().valid()) {
    feed.Truncate(Readable(size));
    this->caches().ForgetFrom(feed.end());
    this->caches().computed_tokens = std::min(this->caches().computed_tokens, Readable(size));
    return true;
  }
  const bool replays = NeedsReplay();
  const uint64_t target = std::min({sequence().position(), Readable(size), feed.end()});
  absl::StatusOr<uint64_t> restored = sequence().Truncate(target);
  // An earlier rollback may have lost tokens that no turn has read since. The next turn still
  // counts them as recomputed.
  SessionCaches& caches = this->caches();
  caches.computed_tokens = std::max(target, std::min(caches.computed_tokens, Readable(size)));
  caches.recompute_reason = std::move(reason);
  if (restored.ok()) {
    feed.Truncate(replays ? Readable(size) : *restored);
    caches.ForgetFrom(feed.end());
    return true;
  }
  // The caches are broken, but the tokens are not: make new caches, which will read all tokens
  // again.
  feed.Truncate(Readable(size));
  caches.ForgetFrom(feed.end());
  caches.lowest_rewind = std::max(caches.lowest_rewind, LowestRewind(sequence()));
  DropCaches();
  absl::StatusOr<Sequence> fresh = backend_->CreateSequence();
  if (fresh.ok()) sequence() = *std::move(fresh);
  caches.recompute_reason =
      absl::StrCat("the backend could not roll back: ", restored.status().message());
  return false;
}

void TurnHistory::Settle(bool whole) {
  // A turn that was rolled back may leave vectors with much more room than they need.
  if (state().tokens.capacity() / 2 > size()) {
    state().tokens.shrink_to_fit();
    state().generated.shrink_to_fit();
  }
  lease_.CountHost();
  caches().decode_tokens = feed().decode_tokens();
  caches().prefill_tokens = feed().end() - caches().decode_tokens;
  if (!sequence().valid()) return;
  // Giving back memory cannot fail. If a backend reports an error all the same, only memory is
  // lost.
  sequence().Reserve(0).IgnoreError();
  if (!NeedsReplay()) caches().evicted = false;
  if (whole) caches().computed_tokens = std::max(sequence().position(), feed().end());
}

uint64_t TurnHistory::NextLowestRewind() const {
  const uint64_t known = caches().lowest_rewind;
  const ls_model_info& info = backend_->info();
  const bool has_pages_only = info.window_bytes_per_sequence + info.state_bytes_per_sequence == 0;
  if (has_pages_only || !sequence().valid() || !backend_->plugin().Can(LS_CAP_FORK)) return known;
  absl::StatusOr<Sequence> copy = backend_->ForkSequence(sequence());
  return copy.ok() ? std::max(known, LowestRewind(*copy)) : known;
}

void TurnHistory::GiveBack() {
  lease_.session()->ChargeCaches();
  lease_.Publish();
  lease_.Drop();
}

std::optional<StoredPlace> ChooseStored(Session& session, const BackendModel& backend,
                                        const RestoreCosts& costs) {
  StoredCaches* const stored = session.stored_caches();
  const SessionState& state = session.state();
  const Sequence& sequence = session.caches().sequence;
  const uint64_t position = sequence.valid() ? sequence.position() : 0;
  if (stored == nullptr || position >= state.feed.end() || !backend.CanSnapshot()) {
    return std::nullopt;
  }
  std::vector<StoredPlace> places = stored->Find(state, session.caches().unchanged);
  session.caches().unchanged = state.feed.end();
  std::erase_if(places, [&](const StoredPlace& place) { return place.position <= position; });
  std::vector<RestoreOption> options;
  options.reserve(places.size());
  for (const StoredPlace& place : places) {
    options.push_back({TurnDemand::CacheBytes(backend.info(), place.position),
                       ReplayFrom(state, place.position)});
  }
  const std::optional<size_t> chosen = ChooseRestore(options, ReplayFrom(state, position), costs);
  if (!chosen.has_value()) return std::nullopt;
  return std::move(places[*chosen]);
}

uint64_t CommonTokens(const SessionState& session, const SessionState& state, uint32_t grid) {
  const auto differs = std::mismatch(session.tokens.begin(), session.tokens.end(),
                                     state.tokens.begin(), state.tokens.end());
  const auto equal = static_cast<uint64_t>(differs.first - session.tokens.begin());
  return session.feed.CommonEnd(state.feed, equal, grid);
}

void ReturnTo(TurnLease& lease, SessionState state, std::string reason, BackendModel& backend) {
  const uint64_t common = CommonTokens(lease.state(), state, backend.info().prefill_grid);
  SessionCaches& caches = lease.session()->caches();
  Sequence& sequence = caches.sequence;
  caches.ForgetFrom(common);
  const bool goes_back = sequence.valid() && sequence.position() > common;
  if (goes_back && !sequence.Truncate(common).ok()) sequence = Sequence();
  if (!sequence.valid() && !caches.return_points.empty()) {
    absl::StatusOr<Sequence> copy = backend.ForkSequence(caches.return_points.back().caches);
    if (copy.ok()) {
      sequence = *std::move(copy);
    } else {  // there is no memory for a copy
      sequence = std::move(caches.return_points.back().caches);
      caches.return_points.pop_back();
    }
    caches.evicted = caches.restored = false;
  }
  lease.state() = std::move(state);
  const SessionState& now = lease.state();
  caches.computed_tokens = Readable(now.tokens.size());
  caches.recompute_reason = std::move(reason);
  caches.lowest_rewind = std::min(caches.lowest_rewind, now.feed.end());
  caches.decode_tokens = now.feed.decode_tokens();
  caches.prefill_tokens = now.feed.end() - caches.decode_tokens;
}

uint64_t LowestRewind(Sequence& sequence) {
  uint64_t reached = sequence.position();
  if (reached <= 1 || CanGoBack(sequence, 1)) return 0;
  for (uint64_t failed = 1; reached - failed > 1;) {
    const uint64_t middle = failed + (reached - failed) / 2;
    (CanGoBack(sequence, middle) ? reached : failed) = middle;
  }
  return reached;
}

}  // namespace longstream
