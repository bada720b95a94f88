// Collects the credentials of a call.
#include "service/server/transport/authorize.h"

#include <grpc/grpc_security_constants.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/interceptors/request_id.h"
#include "service/security/certificates.h"

namespace longstream {
namespace {

// The names in the client's certificate. gRPC has verified the certificate, or has none.
std::vector<CertificateName> CertificateOf(const grpc::CallbackServerContext& context) {
  using NameKind = CertificateName::Kind;
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  std::vector<CertificateName> names;
  if (connection == nullptr || !connection->IsPeerAuthenticated()) return names;
  for (const auto& [property, kind] :
       {std::pair(GRPC_PEER_DNS_PROPERTY_NAME, NameKind::kDns),
        std::pair(GRPC_PEER_URI_PROPERTY_NAME, NameKind::kUri),
        std::pair(GRPC_X509_CN_PROPERTY_NAME, NameKind::kCommonName)}) {
    for (const grpc::string_ref& value : connection->FindPropertyValues(property)) {
      names.push_back({kind, std::string(value.data(), value.size())});
    }
  }
  return names;
}

// The time at which the client's certificate expires. It may pass while the connection is open.
absl::Time CertificateExpires(const grpc::CallbackServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  if (connection == nullptr || !connection->IsPeerAuthenticated()) return absl::InfiniteFuture();
  const std::vector<grpc::string_ref> pem =
      connection->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return absl::InfinitePast();
  return CertificateExpiry(std::string(pem[0].data(), pem[0].size()));
}

Presented PresentedBy(const grpc::CallbackServerContext& context) {
  Presented presented;
  const auto [first, end] = context.client_metadata().equal_range("authorization");
  for (auto value = first; value != end; ++value) {
    presented.authorization.emplace_back(value->second.data(), value->second.size());
  }
  // A token counts instead of the certificate.
  if (!presented.authorization.empty()) return presented;
  presented.certificate = CertificateOf(context);
  presented.certificate_expires = CertificateExpires(context);
  return presented;
}

}  // namespace

absl::StatusOr<Caller> AuthorizeEverybody(const grpc::CallbackServerContext& context,
                                          std::string_view /*method*/) {
  if (absl::Now() < CertificateExpires(context)) return Caller{};
  return absl::UnauthenticatedError("the client's certificate has expired");
}

Authorize AuthorizeWith(const Guard* guard) {
  return [guard](const grpc::CallbackServerContext& context, std::string_view method) {
    return guard->Authorize(method, PresentedBy(context), RequestIdOf(context));
  };
}

}  // namespace longstream
