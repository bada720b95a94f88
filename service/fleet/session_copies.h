// The copies of sessions in this replica's memory, as the fleet uses them.
#ifndef LONGSTREAM_SERVICE_FLEET_SESSION_COPIES_H_
#define LONGSTREAM_SERVICE_FLEET_SESSION_COPIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// The caches of a session, read out beside the model's steps. One thread at a time; Read may block
// for a disk or a device, never for a client.
class CacheReader {
 public:
  virtual ~CacheReader() = default;
  // Says what the bytes are, for CacheWriter: layout, position and sizes.
  virtual const std::string& header() const = 0;
  virtual uint64_t bytes() const = 0;  // of all pieces
  // Appends the next bytes, at most `size`. None: the end.
  virtual absl::Status Read(size_t size, std::string* bytes) = 0;
};

// Takes the caches of a session that arrives. One thread at a time. If it is destroyed before
// Finish, what was written is freed.
class CacheWriter {
 public:
  virtual ~CacheWriter() = default;
  // RESOURCE_EXHAUSTED, FAILED_PRECONDITION: there is no memory for them, or they are of another
  // layout. The session goes on without them: it is restored or computed again.
  virtual absl::Status Write(std::string_view bytes) = 0;
  // All bytes were written. The session will have these caches when it is next used here, at this
  // fence. They are freed if it is used at another one, or not soon.
  virtual absl::Status Finish() = 0;
};

// Thread-safe. No function blocks.
class SessionCopies {
 public:
  virtual ~SessionCopies() = default;

  // Another replica has the session, or will have it: forget what is in memory. The log stays. No
  // later call finds the copy. A running turn ends with ABORTED, without a commit.
  virtual void Drop(const SessionKey& session) = 0;
  // Ends the turn that runs, or waits for admission, with this status, without a commit. The copy
  // goes back to the head.
  virtual void Stop(const SessionKey& session, const absl::Status& why) = 0;

  // The row has another epoch and version now, with the same content: a copy that was at `from` is
  // at `to` from now on.
  virtual void Keep(const Fence& from, const Fence& to) = 0;

  // OK: there are caches worth sending, of a copy at this epoch and version. OUT_OF_RANGE: the
  // session has no tokens, so it needs none. NOT_FOUND: they are not in memory. UNIMPLEMENTED: the
  // model cannot send them.
  virtual absl::Status FindCaches(const Fence& at) const = 0;
  // Reads what FindCaches has found. While a call or the end of a turn holds the session, it waits
  // a little. `ready` is called once, on any thread, whatever happens to the session, and before
  // the object is destroyed. An error says why there are none after all: also UNAVAILABLE: the
  // session was in use for too long, or the server is shutting down; and RESOURCE_EXHAUSTED: the
  // copy that is sent has no room.
  using Reading = absl::StatusOr<std::shared_ptr<CacheReader>>;
  virtual void ReadCaches(const Fence& at, std::function<void(Reading)> ready) = 0;
  // `header`: of the CacheReader on the other replica. `at`: epoch and version that the session
  // will have when this replica has taken it. Errors as for CacheWriter::Write.
  virtual void TakeCaches(
      const SessionKey& session, const std::string& header, const Fence& at,
      std::function<void(absl::StatusOr<std::shared_ptr<CacheWriter>>)> ready) = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_SESSION_COPIES_H_
