// A certificate authority for tests.
#ifndef LONGSTREAM_TESTS_SERVICE_SECURITY_TEST_AUTHORITY_H_
#define LONGSTREAM_TESTS_SERVICE_SECURITY_TEST_AUTHORITY_H_

#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace longstream {

// PEM texts.
struct TestCertificate {
  std::string certificate;
  std::string key;
};

// Makes keys on the curve P-256, which takes less than a millisecond. Each object is another
// authority. Functions throw std::runtime_error if OpenSSL fails. Not thread-safe.
class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();

  const std::string& certificate() const { return certificate_; }
  // `names`: the alternative names as OpenSSL writes them, such as "DNS:localhost,IP:127.0.0.1";
  // empty: none. `seconds`: until the certificate expires.
  TestCertificate Issue(const std::string& common_name, const std::string& names,
                        long seconds = 3600);
  // A certificate whose key is so short that OpenSSL's servers do not take it.
  TestCertificate IssueWithShortKey(const std::string& common_name);

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
    void operator()(x509_st* certificate) const;
  };
  using Key = std::unique_ptr<evp_pkey_st, Free>;
  using Certificate = std::unique_ptr<x509_st, Free>;

  static Key NewKey();
  TestCertificate IssueFor(const Key& key, const std::string& common_name, const std::string& names,
                           long seconds);
  // `issuer`: null for the authority itself.
  Certificate Sign(const std::string& common_name, const std::string& names, evp_pkey_st* key,
                   x509_st* issuer, long seconds);

  long serial_ = 0;
  Key key_;
  Certificate own_;
  std::string certificate_;
};

// The certificate of a server on this machine.
inline TestCertificate IssueForServer(TestAuthority* authority) {
  return authority->Issue("server", "DNS:localhost,IP:127.0.0.1");
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SECURITY_TEST_AUTHORITY_H_
