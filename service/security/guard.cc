// Finds the caller, then asks the table.
#include "service/security/guard.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

absl::Status NoCredential() {
  return absl::UnauthenticatedError("the call needs a valid credential");
}

absl::Status NotAllowed() {
  return absl::PermissionDeniedError("the call's credential does not allow this");
}

// The token in "Bearer TOKEN".
std::optional<std::string_view> TokenIn(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  if (!absl::EqualsIgnoreCase(absl::string_view(scheme.data(), scheme.size()),
                              absl::string_view(kScheme.data(), kScheme.size()))) {
    return std::nullopt;
  }
  return authorization.substr(kScheme.size());
}

}  // namespace

Guard::Guard(bool open_health, Credentials credentials, Listeners listeners)
    : table_(open_health),
      listeners_(std::move(listeners)),
      credentials_(std::make_shared<const Credentials>(std::move(credentials))) {}

void Guard::SetCredentials(Credentials credentials) {
  auto next = std::make_shared<const Credentials>(std::move(credentials));
  absl::MutexLock lock(&mutex_);
  credentials_.swap(next);
}

absl::StatusOr<Caller> Guard::Identify(const Presented& presented) const {
  std::shared_ptr<const Credentials> credentials;
  {
    absl::MutexLock lock(&mutex_);
    credentials = credentials_;
  }
  std::optional<Caller> caller;
  const absl::Time now = absl::Now();
  if (presented.authorization.empty()) {
    if (now < presented.certificate_expires) {
      caller = credentials->ByCertificate(presented.certificate, now);
    }
  } else if (presented.authorization.size() == 1) {
    const std::optional<std::string_view> token = TokenIn(presented.authorization[0]);
    if (token.has_value()) caller = credentials->ByToken(*token, now);
  }
  if (!caller.has_value()) return NoCredential();
  return *std::move(caller);
}

absl::StatusOr<Caller> Guard::Decide(std::string_view what, const absl::StatusOr<Caller>& caller,
                                     bool may, std::string_view request_id) const {
  absl::Status status = !caller.ok() ? caller.status() : may ? absl::OkStatus() : NotAllowed();
  if (caller.ok() && caller->role == Role::kOperator && listeners_.on_operator_call) {
    listeners_.on_operator_call(*caller, what, request_id, status);
  }
  if (status.ok()) return caller;
  if (listeners_.on_refused) listeners_.on_refused(status.code());
  return status;
}

absl::StatusOr<Caller> Guard::Authorize(std::string_view method, const Presented& presented,
                                        std::string_view request_id) const {
  const AccessTable::Answer answer = table_.Find(method);
  if (answer == AccessTable::Answer::kForbidden) {
    return Decide(method, NotAllowed(), false, request_id);
  }
  absl::StatusOr<Caller> caller = Identify(presented);
  if (answer == AccessTable::Answer::kOpen) {
    if (!caller.ok()) caller = Caller{};
    return Decide(method, caller, true, request_id);
  }
  return Decide(method, caller, caller.ok() && table_.Allows(method, caller->role), request_id);
}

absl::StatusOr<Caller> Guard::AuthorizeRole(std::string_view what, Role role,
                                            const Presented& presented,
                                            std::string_view request_id) const {
  const absl::StatusOr<Caller> caller = Identify(presented);
  return Decide(what, caller, caller.ok() && caller->role == role, request_id);
}

}  // namespace longstream
