// Makes certificates with OpenSSL.
#include "tests/service/security/test_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace longstream {
namespace {

void Require(bool ok, const char* step) {
  if (!ok) throw std::runtime_error(std::string("OpenSSL: ") + step);
}

template <typename Write>
std::string Pem(const Write& write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  Require(write(bio) == 1, "PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  Require(extension != nullptr, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// OpenSSL finds the issuer of a certificate by its name, so each authority has another.
std::string NextName() {
  static std::atomic<int> count = 0;
  return "test authority " + std::to_string(++count);
}

}  // namespace

void TestAuthority::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }
void TestAuthority::Free::operator()(x509_st* certificate) const { X509_free(certificate); }

TestAuthority::TestAuthority()
    : key_(NewKey()),
      own_(Sign(NextName(), "", key_.get(), nullptr, 3600)),
      certificate_(PemOf(own_.get())) {}

TestAuthority::~TestAuthority() = default;

TestAuthority::Key TestAuthority::NewKey() {
  Key key(EVP_EC_gen("P-256"));
  Require(key != nullptr, "key");
  return key;
}

TestAuthority::Certificate TestAuthority::Sign(const std::string& common_name,
                                               const std::string& names, evp_pkey_st* key,
                                               x509_st* issuer, long seconds) {
  Certificate made(X509_new());
  X509* const certificate = made.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(certificate, issuer == nullptr ? subject : X509_get_subject_name(issuer));
  X509* const signer = issuer == nullptr ? certificate : issuer;
  AddExtension(certificate, signer, NID_basic_constraints,
               issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!names.empty()) AddExtension(certificate, signer, NID_subject_alt_name, names);
  Require(X509_sign(certificate, key_.get(), EVP_sha256()) > 0, "signature");
  return made;
}

TestCertificate TestAuthority::Issue(const std::string& common_name, const std::string& names,
                                     long seconds) {
  return IssueFor(NewKey(), common_name, names, seconds);
}

TestCertificate TestAuthority::IssueWithShortKey(const std::string& common_name) {
  const Key key(EVP_RSA_gen(1024));
  Require(key != nullptr, "key");
  return IssueFor(key, common_name, "", 3600);
}

TestCertificate TestAuthority::IssueFor(const Key& key, const std::string& common_name,
                                        const std::string& names, long seconds) {
  const Certificate made = Sign(common_name, names, key.get(), own_.get(), seconds);
  return {PemOf(made.get()), Pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace longstream
