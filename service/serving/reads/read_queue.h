// The order in which the calls of all tenants read the store.
#ifndef LONGSTREAM_SERVICE_SERVING_READS_READ_QUEUE_H_
#define LONGSTREAM_SERVICE_SERVING_READS_READ_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/sessions/session_id.h"

namespace longstream {

// For whom a call reads the store.
struct ReadOf {
  std::string tenant;
  // Reads of one session run one after the other. Absent: the read runs beside all others.
  std::optional<SessionId> session = std::nullopt;
};

// Tenants take turns: each gets as many reads in a row as its weight is. The reads of a tenant come
// in the order of Add, but a read that waits for another one of its session is overtaken. Has no
// threads and no clock, so equal calls give equal orders. Not thread-safe.
class ReadQueue {
 public:
  using Work = std::function<void()>;
  struct Limits {
    size_t most_waiting = 0;  // reads of one tenant that wait
    int most_running = 0;     // reads of one tenant that run at once
  };
  struct Read {
    ReadOf of;
    Work work;
  };

  explicit ReadQueue(const Limits& limits) : limits_(limits) {}
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // `weight`: of the tenant, at least 1. UNAVAILABLE: too many reads of the tenant wait; `work` is
  // not kept.
  absl::Status Add(const ReadOf& of, uint32_t weight, Work work);
  // Whether a read may run now.
  bool can_take() const { return !round_.empty(); }
  // Returns the next read, which runs from now on. REQUIRES: can_take().
  Read Take();
  // The read has ended.
  void End(const ReadOf& of);
  // Whether no read waits.
  bool empty() const { return num_waiting_ == 0; }

 private:
  // The reads of a tenant.
  struct Lane {
    uint32_t weight = 1;
    std::deque<Read> ready;  // that wait for no other read
    // The sessions that have a read which is ready or runs, and the reads that wait for it.
    std::map<SessionId, std::deque<Read>> sessions;
    size_t num_waiting = 0;
    int num_running = 0;
    bool is_in_round = false;
    uint32_t left = 0;  // reads until it is the next tenant's turn
  };

  // Gives the tenant a place in the round if it has a read that may run.
  void Enter(Lane* lane);
  bool MayRun(const Lane& lane) const {
    return !lane.ready.empty() && lane.num_running < limits_.most_running;
  }

  const Limits limits_;
  std::map<std::string, Lane> lanes_;  // of tenants with reads
  std::deque<Lane*> round_;            // those that may run one; the first one is next
  size_t num_waiting_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_READS_READ_QUEUE_H_
