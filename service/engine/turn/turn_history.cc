// Adds tokens to a history and rolls it back.
#include "service/engine/turn/turn_history.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// The last token of a history is never read (SessionCaches::sequence).
uint64_t Readable(uint64_t size) { return size > 0 ? size - 1 : 0; }

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
  return absl::OkStatus();
}

void TurnHistory::Cut() {
  if (start_ == size()) return;
  const auto at = static_cast<std::ptrdiff_t>(start_);
  cut_tokens_.assign(state().tokens.begin() + at, state().tokens.end());
  cut_generated_.assign(state().generated.begin() + at, state().generated.end());
  cut_computed_tokens_ = caches().computed_tokens;
  cut_charge_.Set(BlockBytes(cut_tokens_) + BlockBytes(cut_generated_));
  if (!sequence().valid()) {
    state().tokens.resize(start_);
    state().generated.resize(start_);
    return;
  }
  RollBack(start_, absl::StrCat("the turn replaced the text from position ", start_, " on"));
}

void TurnHistory::PutBack() {
  if (cut_tokens_.empty()) return;
  state().tokens.insert(state().tokens.end(), cut_tokens_.begin(), cut_tokens_.end());
  state().generated.insert(state().generated.end(), cut_generated_.begin(), cut_generated_.end());
  caches().computed_tokens = cut_computed_tokens_;
  cut_tokens_ = std::vector<int32_t>();
  cut_generated_ = std::vector<bool>();
  cut_charge_.Set(0);
}

void TurnHistory::Append(std::span<const int32_t> tokens, bool generated) {
  state().tokens.insert(state().tokens.end(), tokens.begin(), tokens.end());
  state().generated.resize(size(), generated);
  lease_.CountHost();
}

void TurnHistory::RollBack(uint64_t size, std::string reason) {
  state().tokens.resize(size);
  state().generated.resize(size);
  const uint64_t target = std::min(sequence().position(), Readable(size));
  absl::StatusOr<uint64_t> restored = sequence().Truncate(target);
  // An earlier rollback may have lost tokens that no turn has read since. The next turn still
  // counts them as recomputed.
  SessionCaches& caches = this->caches();
  caches.computed_tokens = std::max(target, std::min(caches.computed_tokens, Readable(size)));
  caches.recompute_reason = std::move(reason);
  if (restored.ok()) return;
  // The caches are broken, but the tokens are not: make new caches, which will read all tokens
  // again.
  DropCaches();
  absl::StatusOr<Sequence> fresh = backend_->CreateSequence();
  if (fresh.ok()) sequence() = *std::move(fresh);
  caches.recompute_reason =
      absl::StrCat("the backend could not roll back: ", restored.status().message());
}

void TurnHistory::Settle(bool whole) {
  // A turn that was rolled back may leave vectors with much more room than they need.
  if (state().tokens.capacity() / 2 > size()) {
    state().tokens.shrink_to_fit();
    state().generated.shrink_to_fit();
  }
  lease_.CountHost();
  if (!sequence().valid()) return;
  // Giving back memory cannot fail. If a backend reports an error all the same, only memory is
  // lost.
  sequence().Reserve(0).IgnoreError();
  if (whole) caches().computed_tokens = sequence().position();
}

void TurnHistory::GiveBack() {
  lease_.Publish();
  lease_.Drop();
}

}  // namespace longstream
