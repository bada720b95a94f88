// Which idle sessions leave the memory before their idle timeout, so that others find room.
#ifndef LONGSTREAM_SERVICE_SERVING_MEMORY_MEMORY_ROOM_H_
#define LONGSTREAM_SERVICE_SERVING_MEMORY_MEMORY_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/host_memory/host_memory.h"
#include "service/security/tenants/tenants.h"
#include "service/serving/engines/served_sessions.h"
#include "service/sessions/session.h"

namespace longstream {

// Sessions in the store need not be in memory while nobody uses them. When less than an eighth is
// left of the host's memory of all sessions, of a tenant's part of it, or of the places for
// sessions, those leave that have been idle for longest, until a quarter is free, or as much as is
// possible. Sessions without caches leave first, because their next turns lose nothing. If there
// are fewer than eight places, one session leaves each time that another has found none. Sessions
// that only live in memory never leave.
//
// One thread may use it.
class MemoryRoom {
 public:
  // `all`: of all tenants. `least_idle`: a session that was used more recently than this stays. All
  // pointers outlive the object.
  MemoryRoom(const HostMemory* all, const Tenants* tenants, const ServedSessions* sessions,
             absl::Duration least_idle)
      : all_(all), tenants_(tenants), sessions_(sessions), least_idle_(least_idle) {}

  struct Leaving {
    std::shared_ptr<Session> session;
    const char* reason = "";  // "host_bytes", "quota" or "places": what was short
  };
  // The sessions that leave now. A call may use one of them meanwhile: then it stays
  // (Session::CloseIfExpired with least_idle).
  std::vector<Leaving> Choose(MonotonicTime now);

  absl::Duration least_idle() const { return least_idle_; }

 private:
  // The amounts that sessions hold, or that have to go.
  struct Amounts {
    uint64_t bytes = 0;                       // of all sessions
    std::vector<uint64_t> tenant_bytes = {};  // by the tenant's index; empty: there are no quotas
    uint64_t places = 0;
  };
  // A session that was chosen, with its bytes.
  struct Left {
    std::weak_ptr<Session> session;
    uint64_t bytes = 0;
  };
  Amounts Held();
  bool IsAnyShort(const Amounts& held);
  Amounts Wanted(const Amounts& held, const Amounts& can_leave) const;
  static void Subtract(uint64_t bytes, size_t tenant, Amounts* from);

  const HostMemory* const all_;
  const Tenants* const tenants_;
  const ServedSessions* const sessions_;
  const absl::Duration least_idle_;
  uint64_t seen_refusals_ = 0;  // of ServedSessions::refused
  bool place_is_wanted_ = false;
  std::vector<Left> left_;  // not yet freed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MEMORY_MEMORY_ROOM_H_
