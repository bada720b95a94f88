// Measures what is short, and chooses idle sessions.
#include "service/serving/memory/memory_room.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace longstream {
namespace {

// Whether less than an eighth is free. `limit` 0: no limit.
bool IsShort(uint64_t held, uint64_t limit) { return limit != 0 && held > limit - limit / 8; }

// The part of `can_leave` that leaves, so that a quarter is free, or else an eighth, or a
// sixteenth, if that is possible. So sessions do not leave again and again because of others that
// never do.
uint64_t Excess(uint64_t held, uint64_t limit, uint64_t can_leave) {
  if (!IsShort(held, limit)) return 0;
  for (const uint64_t free : {limit / 4, limit / 8, limit / 16}) {
    const uint64_t excess = held - std::min(held, limit - free);
    if (excess <= can_leave) return excess;
  }
  return can_leave;
}

// With fewer places, an eighth of them is none.
constexpr uint64_t kFewPlaces = 8;

struct Candidate {
  std::shared_ptr<Session> session;
  bool has_caches = false;
  MonotonicTime last_use;
  uint64_t host_bytes = 0;
};

// Durable sessions, in the order in which they leave.
std::vector<Candidate> Candidates(const ServedSessions& sessions, MonotonicTime now,
                                  absl::Duration least_idle) {
  std::vector<Candidate> candidates;
  for (std::shared_ptr<Session>& session : sessions.Expired(now, least_idle)) {
    const SessionView view = session->View();
    if (!view.durable) continue;
    const bool has_caches = view.bytes.kv + view.bytes.window + view.bytes.state > 0;
    const MonotonicTime last_use = session->LastUse().last;
    candidates.push_back({std::move(session), has_caches, last_use, view.bytes.host});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.has_caches, a.last_use) < std::pair(b.has_caches, b.last_use);
  });
  return candidates;
}

}  // namespace

// Does not count the sessions that have left: their engines free them soon.
MemoryRoom::Amounts MemoryRoom::Held() {
  Amounts held;
  held.bytes = all_->held_bytes();
  held.places = sessions_->size();
  if (tenants_->are_configured()) {
    for (const std::shared_ptr<Tenant>& tenant : tenants_->all()) {
      held.tenant_bytes.push_back(tenant->host_memory()->held_bytes());
    }
  }
  std::erase_if(left_, [&held](const Left& left) {
    const std::shared_ptr<Session> session = left.session.lock();
    if (session == nullptr || !session->closed()) return true;  // freed, or it has stayed
    Subtract(left.bytes, session->tenant_index(), &held);
    return false;
  });
  return held;
}

bool MemoryRoom::IsAnyShort(const Amounts& held) {
  const uint64_t refused = sessions_->refused();
  const uint64_t most = sessions_->max_size();
  place_is_wanted_ =
      std::exchange(seen_refusals_, refused) != refused && most > 0 && held.places >= most;
  bool is_short = IsShort(held.bytes, all_->limit()) || place_is_wanted_ ||
                  (most >= kFewPlaces && IsShort(held.places, most));
  for (size_t i = 0; i < held.tenant_bytes.size(); ++i) {
    is_short |= IsShort(held.tenant_bytes[i], tenants_->all()[i]->host_memory()->limit());
  }
  return is_short;
}

MemoryRoom::Amounts MemoryRoom::Wanted(const Amounts& held, const Amounts& can_leave) const {
  Amounts wanted;
  wanted.bytes = Excess(held.bytes, all_->limit(), can_leave.bytes);
  const uint64_t most = sessions_->max_size();
  if (most >= kFewPlaces) wanted.places = Excess(held.places, most, can_leave.places);
  if (place_is_wanted_) wanted.places = std::max<uint64_t>(wanted.places, 1);
  for (size_t i = 0; i < held.tenant_bytes.size(); ++i) {
    wanted.tenant_bytes.push_back(Excess(held.tenant_bytes[i],
                                         tenants_->all()[i]->host_memory()->limit(),
                                         can_leave.tenant_bytes[i]));
  }
  return wanted;
}

void MemoryRoom::Subtract(uint64_t bytes, size_t tenant, Amounts* from) {
  from->bytes -= std::min(from->bytes, bytes);
  if (tenant >= from->tenant_bytes.size()) return;
  from->tenant_bytes[tenant] -= std::min(from->tenant_bytes[tenant], bytes);
}

std::vector<MemoryRoom::Leaving> MemoryRoom::Choose(MonotonicTime now) {
  std::vector<Leaving> leaving;
  const Amounts held = Held();
  if (!IsAnyShort(held)) return leaving;
  std::vector<Candidate> candidates = Candidates(*sessions_, now, least_idle_);
  Amounts can_leave{.tenant_bytes = std::vector<uint64_t>(held.tenant_bytes.size())};
  for (const Candidate& candidate : candidates) {
    const size_t tenant = candidate.session->tenant_index();
    can_leave.bytes += candidate.host_bytes;
    ++can_leave.places;
    if (tenant < can_leave.tenant_bytes.size()) {
      can_leave.tenant_bytes[tenant] += candidate.host_bytes;
    }
  }
  Amounts wanted = Wanted(held, can_leave);
  for (Candidate& candidate : candidates) {
    const size_t tenant = candidate.session->tenant_index();
    const bool tenant_wants =
        tenant < wanted.tenant_bytes.size() && wanted.tenant_bytes[tenant] > 0;
    const char* const reason = wanted.bytes > 0    ? "host_bytes"
                               : tenant_wants      ? "quota"
                               : wanted.places > 0 ? "places"
                                                   : nullptr;
    if (reason == nullptr) continue;
    Subtract(candidate.host_bytes, tenant, &wanted);
    if (wanted.places > 0) --wanted.places;
    left_.push_back({candidate.session, candidate.host_bytes});
    leaving.push_back({std::move(candidate.session), reason});
  }
  return leaving;
}

}  // namespace longstream
