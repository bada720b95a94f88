// Reads the rows of sessions on threads of its own.
#ifndef LONGSTREAM_SERVICE_FLEET_ROW_READER_H_
#define LONGSTREAM_SERVICE_FLEET_ROW_READER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/fleet_store.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// Thread-safe. Read never blocks.
class RowReader {
 public:
  // Called once, on a thread of the reader or at once. It must not block.
  using Done = std::function<void(absl::StatusOr<OwnedRow>)>;

  // `store` must outlive the reader.
  RowReader(FleetStore* store, int threads, size_t most_waiting);
  ~RowReader() { Stop(); }
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  enum class For {
    kWork,   // somebody waits for it. UNAVAILABLE if too many of these wait
    kCheck,  // nobody does: it comes after the others. The caller bounds how many there are
  };
  void Read(const SessionKey& session, const std::optional<TurnId>& turn, For what, Done done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the reads that the store makes now. The others end with UNAVAILABLE, also later ones.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Request {
    SessionKey session;
    std::optional<TurnId> turn;
    Done done;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  FleetStore* const store_;
  const size_t most_waiting_;
  absl::Mutex mutex_;
  std::deque<Request> work_ ABSL_GUARDED_BY(mutex_);
  std::deque<Request> checks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last, so that they start after the other members
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_ROW_READER_H_
