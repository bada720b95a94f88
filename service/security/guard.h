// Decides for each call who makes it, and whether the caller may.
#ifndef LONGSTREAM_SERVICE_SECURITY_GUARD_H_
#define LONGSTREAM_SERVICE_SECURITY_GUARD_H_

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/security/access_table.h"
#include "service/security/caller.h"
#include "service/security/credentials.h"

namespace longstream {

// The credentials that come with a call.
struct Presented {
  // The values of the header "authorization".
  std::vector<std::string_view> authorization;
  // The names in the client's certificate, which the server has verified; none: no certificate.
  std::vector<CertificateName> certificate;
  // A connection may outlive the certificate with which it began.
  absl::Time certificate_expires = absl::InfiniteFuture();
};

// Thread-safe.
class Guard {
 public:
  struct Listeners {
    // A caller with the role operator makes a call. Called before the call takes effect. `status`:
    // OK, or why the call is refused. May be empty.
    std::function<void(const Caller& caller, std::string_view method, std::string_view request_id,
                       const absl::Status& status)>
        on_operator_call;
    // A call was refused. May be empty.
    std::function<void(absl::StatusCode code)> on_refused;
  };

  Guard(bool open_health, Credentials credentials, Listeners listeners);

  // Calls that are running go on; the next call needs one of these credentials.
  void SetCredentials(Credentials credentials) ABSL_LOCKS_EXCLUDED(mutex_);

  // UNAUTHENTICATED: the call has no valid credential; the message is the same for every reason.
  // PERMISSION_DENIED: its role may not call the method, or the method has no row in the table. If
  // the call has a token, its certificate does not count.
  absl::StatusOr<Caller> Authorize(std::string_view method, const Presented& presented,
                                   std::string_view request_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Does the same for something that is no method of the table: only `role` may.
  absl::StatusOr<Caller> AuthorizeRole(std::string_view what, Role role, const Presented& presented,
                                       std::string_view request_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<Caller> Identify(const Presented& presented) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Caller> Decide(std::string_view what, const absl::StatusOr<Caller>& caller,
                                bool may, std::string_view request_id) const;

  const AccessTable table_;
  const Listeners listeners_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Credentials> credentials_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_GUARD_H_
