// The security of connections to gRPC's server: TLS, with certificates that change while it runs.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_TLS_CREDENTIALS_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_TLS_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "service/security/certificates.h"

namespace longstream {

// Plain text if there are no certificates (nullptr), otherwise TLS 1.2 or 1.3. Each new connection
// uses the certificates that are current then; connections that are open go on. gRPC asks for a
// pair at the beginning of each handshake, so a certificate is never used with another one's key.
std::shared_ptr<grpc::ServerCredentials> CredentialsWith(
    std::shared_ptr<const CurrentCertificates> certificates, ClientCertificates clients);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_TLS_CREDENTIALS_H_
