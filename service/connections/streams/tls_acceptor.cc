// TlsStream is a ByteStream on an OpenSSL connection.
#include "service/connections/streams/tls_acceptor.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "service/security/openssl_objects.h"
#include "service/security/server_context.h"

namespace longstream {
namespace {

// The longest chain of a client's certificates.
constexpr long kMaxChainBytes = 32 << 10;
// The most records without content that a client may send at once.
constexpr int kMaxEmptyRecords = 32;

using Names = std::unique_ptr<GENERAL_NAMES, FreeWith<&GENERAL_NAMES_free>>;
using Connection = std::unique_ptr<SSL, FreeWith<&SSL_free>>;

std::string TextOf(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

void AddAlternativeNames(const X509* certificate, std::vector<CertificateName>* names) {
  const Names found(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(found.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(found.get(), i);
    if (name->type == GEN_DNS) {
      names->push_back({CertificateName::Kind::kDns, TextOf(name->d.dNSName)});
    } else if (name->type == GEN_URI) {
      names->push_back({CertificateName::Kind::kUri, TextOf(name->d.uniformResourceIdentifier)});
    }
  }
}

void AddCommonName(const X509* certificate, std::vector<CertificateName>* names) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (place < 0) return;
  names->push_back({CertificateName::Kind::kCommonName,
                    TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)))});
}

class TlsStream final : public ByteStream {
 public:
  TlsStream(Descriptor socket, Connection connection)
      : ByteStream(std::move(socket)), connection_(std::move(connection)) {}

  Moved Read(char* bytes, size_t size) override {
    for (int i = 0; i < kMaxEmptyRecords; ++i) {
      ERR_clear_error();
      size_t count = 0;
      const int ok = SSL_read_ex(connection_.get(), bytes, size, &count);
      const bool wants_bytes = SSL_get_error(connection_.get(), ok) == SSL_ERROR_WANT_READ;
      // A record without content looks like a socket without bytes.
      if (!wants_bytes || !SocketHasBytes()) return MovedBy(ok, count);
    }
    return {Outcome::kWrong};
  }

  Moved Write(std::string_view bytes) override {
    ERR_clear_error();
    size_t count = 0;
    const int ok = SSL_write_ex(connection_.get(), bytes.data(), bytes.size(), &count);
    return MovedBy(ok, count);
  }

  void CloseForWriting() override {
    ERR_clear_error();
    SSL_shutdown(connection_.get());
    shutdown(descriptor(), SHUT_WR);
  }

  std::vector<CertificateName> PeerNames() const override {
    std::vector<CertificateName> names;
    const X509* const certificate = SSL_get0_peer_certificate(connection_.get());
    if (certificate == nullptr) return names;
    AddAlternativeNames(certificate, &names);
    AddCommonName(certificate, &names);
    return names;
  }

 private:
  bool SocketHasBytes() const {
    char byte = 0;
    return recv(descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }

  Moved MovedBy(int ok, size_t count) {
    if (ok == 1) return {Outcome::kDone, count};
    switch (SSL_get_error(connection_.get(), ok)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {Outcome::kWait};
      case SSL_ERROR_SSL:
        return {Outcome::kWrong};
      default:
        return {Outcome::kEnded};
    }
  }

  Connection connection_;
};

}  // namespace

TlsAcceptor::TlsAcceptor(std::shared_ptr<const CurrentCertificates> certificates,
                         ClientCertificates clients)
    : certificates_(std::move(certificates)), clients_(clients) {}

OpenSslContext TlsAcceptor::NewContext(const Certificates& certificates) const {
  absl::StatusOr<OpenSslContext> context =
      NewServerContext({"certificate", "key", "client_ca"}, certificates, clients_);
  if (!context.ok()) return nullptr;
  SSL_CTX* const made = context->get();
  SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  // An idle connection holds no buffers, and a part of an answer may be written.
  SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                             SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Otherwise one call reads records without content, such as KeyUpdate, for as long as they come.
  SSL_CTX_clear_mode(made, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_max_cert_list(made, kMaxChainBytes);
  return *std::move(context);
}

std::unique_ptr<ByteStream> TlsAcceptor::Accept(Descriptor socket) {
  std::shared_ptr<const Certificates> current = certificates_->Get();
  if (current != used_) {
    OpenSslContext next = NewContext(*current);
    if (next != nullptr) context_ = std::move(next);
    used_ = std::move(current);
  }
  ERR_clear_error();
  if (context_ == nullptr) return nullptr;
  Connection connection(SSL_new(context_.get()));
  if (connection == nullptr || SSL_set_fd(connection.get(), socket.number()) != 1) return nullptr;
  SSL_set_accept_state(connection.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(connection));
}

}  // namespace longstream
