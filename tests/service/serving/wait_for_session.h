// Waits for the answer of a SessionManager.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_WAIT_FOR_SESSION_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_WAIT_FOR_SESSION_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "service/serving/session_manager.h"
#include "service/sessions/session_key.h"

namespace longstream {

// `call` opens or forks a session and passes the callback on.
inline absl::StatusOr<SessionView> WaitForSession(
    const std::function<void(SessionManager::Opened)>& call) {
  absl::Notification done;
  absl::StatusOr<SessionView> result = absl::UnknownError("not called");
  call([&](absl::StatusOr<SessionView> view) {
    result = std::move(view);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

// Closes a session, and returns when that has ended.
inline absl::Status CloseAndWait(SessionManager& sessions, const SessionKey& key) {
  absl::Status status;
  absl::Notification done;
  sessions.CloseSession(key, [&](const absl::StatusOr<uint64_t>& position) {
    status = position.status();
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_WAIT_FOR_SESSION_H_
