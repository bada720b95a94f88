// Measures what is short, and chooses idle sessions.
#include "service/serving/memory/memory_room.h"

#include <algorithm>
#include <utility>

namespace longstream {
namespace {

// What has to go so that a quarter is free, once less than an eighth is. `limit` 0: no limit.
uint64_t Excess(uint64_t held, uint64_t limit) {
  if (limit == 0 || held <= limit - limit / 8) return 0;
  return held - std::min(held, limit - limit / 4);
}

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

void Subtract(uint64_t bytes, uint64_t* from) { *from -= std::min(*from, bytes); }

}  // namespace

MemoryRoom::Wanted MemoryRoom::Measure() {
  Wanted wanted;
  wanted.bytes = Excess(all_->held_bytes(), all_->limit());
  if (tenants_->are_configured()) {
    for (const std::shared_ptr<Tenant>& tenant : tenants_->all()) {
      const HostMemory& part = *tenant->host_memory();
      wanted.tenant_bytes.push_back(Excess(part.held_bytes(), part.limit()));
    }
  }
  // With fewer than eight places, an eighth of them is none.
  const uint64_t size = sessions_->size(), most = sessions_->max_size();
  wanted.places = most < 8 ? 0 : Excess(size, most);
  const uint64_t refused = sessions_->refused();
  if (std::exchange(seen_refusals_, refused) != refused && size >= most)
    wanted.places = std::max<uint64_t>(wanted.places, 1);
  wanted.any = wanted.bytes > 0 || wanted.places > 0 ||
               std::any_of(wanted.tenant_bytes.begin(), wanted.tenant_bytes.end(),
                           [](uint64_t bytes) { return bytes > 0; });
  return wanted;
}

std::vector<MemoryRoom::Leaving> MemoryRoom::Choose(MonotonicTime now) {
  std::vector<Leaving> leaving;
  Wanted wanted = Measure();
  if (!wanted.any) return leaving;
  uint64_t none = 0;
  for (Candidate& candidate : Candidates(*sessions_, now, least_idle_)) {
    const size_t index = candidate.session->tenant_index();
    uint64_t* const of_tenant =
        index < wanted.tenant_bytes.size() ? &wanted.tenant_bytes[index] : &none;
    const char* reason = nullptr;
    if (wanted.bytes > 0) {
      reason = "host_bytes";
    } else if (*of_tenant > 0) {
      reason = "quota";
    } else if (wanted.places > 0) {
      reason = "places";
    } else {
      continue;
    }
    Subtract(candidate.host_bytes, &wanted.bytes);
    Subtract(candidate.host_bytes, of_tenant);
    Subtract(1, &wanted.places);
    leaving.push_back({std::move(candidate.session), reason});
  }
  return leaving;
}

}  // namespace longstream
