// Looks through the store from time to time: closes sessions whose time has passed, and counts
// those that are there.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/reads/stored_count.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

size_t NumDurableOn(const ServedSessions& sessions, const Engine& engine) {
  constexpr size_t kAtOnce = 1000;  // other calls use the table in between
  size_t durable = 0;
  const Session* from = nullptr;
  do {
    const ServedSessions::Part part = sessions.On(engine, from, kAtOnce);
    durable += static_cast<size_t>(
        std::count_if(part.sessions.begin(), part.sessions.end(),
                      [](const ServedSession& served) { return served.turns->durable(); }));
    from = part.next;
  } while (from != nullptr);
  return durable;
}

}  // namespace

void SessionManager::CloseExpired() {
  const MonotonicTime now = MonotonicTime::Now();
  const absl::Duration period = more_expired_ ? absl::ZeroDuration() : options_.look_period;
  if (options_.store == nullptr || now - expired_at_ < period) return;
  if (RunReadAlone(&closing_expired_, [this] { CloseExpiredNow(); })) expired_at_ = now;
}

void SessionManager::CloseExpiredNow() {
  constexpr size_t kMost = 1000;
  more_expired_ = false;
  // Other replicas open and close sessions of the same tenants. Sessions that are opened or closed
  // here meanwhile may be counted wrongly until the next time.
  if (fleet_ != nullptr) (void)CountStoredSessions(*options_.store, models_->tenants());
  const absl::StatusOr<std::vector<store::SessionRow>> expired =
      options_.store->Expired(absl::Now(), kMost);
  if (expired.ok()) {  // otherwise the store's health says why
    more_expired_ = expired->size() == kMost;
    for (const store::SessionRow& row : *expired) {
      CloseStoredNow(row.key, /*only_expired=*/true, [](const absl::StatusOr<uint64_t>&) {});
    }
  }
  ShowStored();
}

void SessionManager::ShowStored() {
  const MonotonicTime begin = MonotonicTime::Now();
  if (begin < show_stored_at_) return;
  const auto counts = options_.store->CountOwnedSessions();
  // The count reads all rows. If they are many, it takes at most a hundredth of the time, also if
  // it takes too long for the store.
  constexpr int kPause = 100;
  show_stored_at_ =
      begin + std::max(kPause * (MonotonicTime::Now() - begin), options_.look_period / 2);
  if (!counts.ok()) return;  // the store's health says why
  // By model.
  std::map<std::string, uint64_t> stored;
  std::map<std::string, uint64_t> in_memory;
  for (const store::SessionStore::OwnedSessions& count : *counts) {
    const bool counts_here = fleet_ == nullptr || fleet_->CountsSessionsOf(count.owner);
    if (counts_here) stored[count.model] += count.sessions;
  }
  const std::vector<std::shared_ptr<Engine>> engines = models_->Engines();
  for (const std::shared_ptr<Engine>& engine : engines) {
    in_memory[engine->model().name()] += NumDurableOn(sessions_, *engine);
  }
  for (const std::shared_ptr<Engine>& engine : engines) {
    const std::string& model = engine->model().name();
    const absl::StatusOr<std::shared_ptr<Engine>> present = models_->Find(model);
    const bool is_present = present.ok() && *present == engine;
    // A session may have come to memory since its row was counted.
    const uint64_t shown = stored[model] - std::min(stored[model], in_memory[model]);
    engine->ShowStoredSessions(is_present ? shown : 0);
  }
}

}  // namespace longstream
