// OpenSSL's context of a port with TLS.
#ifndef LONGSTREAM_SERVICE_SECURITY_SERVER_CONTEXT_H_
#define LONGSTREAM_SERVICE_SECURITY_SERVER_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "service/security/certificates.h"
#include "service/security/openssl_objects.h"

namespace longstream {

using OpenSslContext = std::unique_ptr<SSL_CTX, FreeWith<&SSL_CTX_free>>;

// A context for TLS 1.2 or 1.3 with the certificate, its chain, the key and the authorities.
// INVALID_ARGUMENT: OpenSSL refuses one of them, for example because its security level needs a
// longer key. The message begins with the name in `files`, and ends with OpenSSL's reason.
absl::StatusOr<OpenSslContext> NewServerContext(const CertificateFiles& files,
                                                const Certificates& certificates,
                                                ClientCertificates clients);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_SERVER_CONTEXT_H_
