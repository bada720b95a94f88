// TLS on connections that do not block.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_TLS_ACCEPTOR_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_TLS_ACCEPTOR_H_

#include <memory>

#include "service/connections/descriptor.h"
#include "service/connections/streams/byte_stream.h"
#include "service/security/certificates.h"
#include "service/security/server_context.h"

namespace longstream {

// Begins TLS 1.2 or 1.3 on accepted connections, each with the certificates that are current then.
// The handshake runs within the first calls of Read. REQUIRES: the process ignores SIGPIPE. Not
// thread-safe.
class TlsAcceptor {
 public:
  TlsAcceptor(std::shared_ptr<const CurrentCertificates> certificates, ClientCertificates clients);

  // Null if OpenSSL cannot use the certificates, or has no memory.
  std::unique_ptr<ByteStream> Accept(Descriptor socket);

 private:
  // Null if OpenSSL cannot use the certificates.
  OpenSslContext NewContext(const Certificates& certificates) const;

  const std::shared_ptr<const CurrentCertificates> certificates_;
  const ClientCertificates clients_;
  std::shared_ptr<const Certificates> used_;  // those of context_, or those that cannot be used
  OpenSslContext context_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_TLS_ACCEPTOR_H_
