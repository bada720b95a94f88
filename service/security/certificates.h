// A server's certificate and key, and the authorities whose clients it accepts.
#ifndef LONGSTREAM_SERVICE_SECURITY_CERTIFICATES_H_
#define LONGSTREAM_SERVICE_SECURITY_CERTIFICATES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/security/watched_files.h"

namespace longstream {

// Whether clients must have a certificate of the authorities.
enum class ClientCertificates { kNone, kOptional, kRequired };

// The paths of PEM files.
struct CertificateFiles {
  std::string certificate;  // the server's, followed by those that lead to the root
  std::string key;
  std::string client_ca;  // empty: clients are not asked for certificates

  std::vector<std::string> paths() const { return {certificate, key, client_ca}; }
};

// The contents of the files, checked. Immutable.
struct Certificates {
  std::string certificate;
  std::string key;
  std::string client_ca;
  absl::Time expires;  // the server's certificate
};

// INVALID_ARGUMENT: a file holds no certificate or no key, the key does not belong to the
// certificate, the key needs a password, the certificate has expired, or OpenSSL does not accept
// one of them, for example because its key is short. The message names the file. `contents`: as
// ReadFiles gives them for files.paths().
absl::StatusOr<Certificates> CheckCertificates(const CertificateFiles& files,
                                               const FileContents& contents, absl::Time now);

// The time at which the first certificate of a PEM text expires. InfinitePast if there is none.
absl::Time CertificateExpiry(const std::string& pem);

// The certificates that new connections use. Thread-safe.
class CurrentCertificates {
 public:
  explicit CurrentCertificates(Certificates certificates)
      : certificates_(std::make_shared<const Certificates>(std::move(certificates))) {}

  std::shared_ptr<const Certificates> Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return certificates_;
  }
  void Set(Certificates certificates) ABSL_LOCKS_EXCLUDED(mutex_) {
    auto next = std::make_shared<const Certificates>(std::move(certificates));
    absl::MutexLock lock(&mutex_);
    certificates_.swap(next);
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Certificates> certificates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_CERTIFICATES_H_
