// Owners of OpenSSL's objects, and how they are read from PEM.
#ifndef LONGSTREAM_SERVICE_SECURITY_OPENSSL_OBJECTS_H_
#define LONGSTREAM_SERVICE_SECURITY_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

namespace longstream {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using OpenSslBio = std::unique_ptr<BIO, FreeWith<&BIO_free_all>>;
using OpenSslCertificate = std::unique_ptr<X509, FreeWith<&X509_free>>;
using OpenSslKey = std::unique_ptr<EVP_PKEY, FreeWith<&EVP_PKEY_free>>;

// Reads from `text`, which must outlive the result.
inline OpenSslBio BioOf(const std::string& text) {
  return OpenSslBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Answers OpenSSL's question for a password. Without it OpenSSL would ask on the terminal.
inline int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) {
  return -1;
}

// Reads certificates until the end or the first that cannot be read. OpenSSL's last error says
// which of the two it was.
inline std::vector<OpenSslCertificate> CertificatesIn(const std::string& pem) {
  const OpenSslBio bio = BioOf(pem);
  std::vector<OpenSslCertificate> certificates;
  while (X509* const one = PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr)) {
    certificates.emplace_back(one);
  }
  return certificates;
}

// Null if the text has no private key without a password.
inline OpenSslKey KeyIn(const std::string& pem) {
  return OpenSslKey(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, &NoPassword, nullptr));
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_OPENSSL_OBJECTS_H_
