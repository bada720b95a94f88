// A client of TLS that blocks, and a server that takes every version.
#ifndef LONGSTREAM_TESTS_SERVICE_SECURITY_TLS_CLIENT_H_
#define LONGSTREAM_TESTS_SERVICE_SECURITY_TLS_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "service/connections/descriptor.h"
#include "service/security/openssl_objects.h"
#include "tests/service/security/test_authority.h"
#include "tests/tcp_client.h"

namespace longstream {

using TestTlsContext = std::unique_ptr<SSL_CTX, FreeWith<&SSL_CTX_free>>;
using TestTlsConnection = std::unique_ptr<SSL, FreeWith<&SSL_free>>;

// A context that takes old versions, with the certificate if there is one.
inline TestTlsContext NewTestContext(const SSL_METHOD* method, const TestCertificate& own) {
  std::signal(SIGPIPE, SIG_IGN);
  TestTlsContext context(SSL_CTX_new(method));
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  if (own.key.empty()) return context;
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), CertificatesIn(own.certificate)[0].get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), KeyIn(own.key).get()), 1);
  return context;
}

class TlsClient {
 public:
  // Offers only `version`, and trusts `authority`. Without a certificate if `own` is empty.
  TlsClient(int port, const std::string& authority, const TestCertificate& own = {},
            int version = TLS1_3_VERSION)
      : client_(port),
        context_(NewTestContext(TLS_client_method(), own)),
        connection_(NewConnection(authority, version)) {}

  bool Connect() { return SSL_connect(connection_.get()) == 1; }

  // Returns the answer; empty if there is no connection. Sends `key_updates` records KeyUpdate
  // before the request, all at once.
  std::string Ask(const std::string& request, int key_updates = 0) {
    if (!Connect()) return "";
    BIO* const sent = BIO_new(BIO_s_mem());
    SSL_set0_wbio(connection_.get(), sent);
    for (int i = 0; i < key_updates; ++i) {
      EXPECT_EQ(SSL_key_update(connection_.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
      EXPECT_EQ(SSL_do_handshake(connection_.get()), 1);
    }
    EXPECT_GT(SSL_write(connection_.get(), request.data(), static_cast<int>(request.size())), 0);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(sent, &bytes);
    client_.Send(std::string(bytes, static_cast<size_t>(size)));
    return ReadAll();
  }

 private:
  TestTlsConnection NewConnection(const std::string& authority, int version) {
    SSL_CTX* const context = context_.get();
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), CertificatesIn(authority)[0].get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    const unsigned char protocols[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context, protocols, sizeof(protocols));
    TestTlsConnection connection(SSL_new(context));
    SSL_set_fd(connection.get(), client_.fd());
    return connection;
  }
  std::string ReadAll() {
    std::string answer;
    char bytes[4096];
    for (int count = 1; count > 0;) {
      count = SSL_read(connection_.get(), bytes, sizeof(bytes));
      if (count > 0) answer.append(bytes, static_cast<size_t>(count));
    }
    return answer;
  }

  const TcpClient client_;
  const TestTlsContext context_;
  const TestTlsConnection connection_;
};

// Whether a client with this version gets a connection to a server that takes every version.
inline bool LenientServerTakes(const std::string& authority, const TestCertificate& own,
                               int version) {
  const Descriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listening.number(), raw, size), 0);
  EXPECT_EQ(listen(listening.number(), 1), 0);
  EXPECT_EQ(getsockname(listening.number(), raw, &size), 0);
  std::jthread server([&] {
    const TestTlsContext context = NewTestContext(TLS_server_method(), own);
    const Descriptor accepted(accept(listening.number(), nullptr, nullptr));
    const TestTlsConnection connection(SSL_new(context.get()));
    SSL_set_fd(connection.get(), accepted.number());
    SSL_accept(connection.get());
  });
  return TlsClient(ntohs(address.sin_port), authority, {}, version).Connect();
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SECURITY_TLS_CLIENT_H_
