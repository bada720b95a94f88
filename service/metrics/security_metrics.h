// The Prometheus metrics of credentials and certificates. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_SECURITY_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_SECURITY_METRICS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Thread-safe. The registry must outlive it.
class SecurityMetrics {
 public:
  explicit SecurityMetrics(prometheus::Registry* registry);
  ~SecurityMetrics();
  SecurityMetrics(const SecurityMetrics&) = delete;
  SecurityMetrics& operator=(const SecurityMetrics&) = delete;

  // A file has changed. `kind`: "credentials", "tls", "metrics_tls", "http.tls" or "fleet_token".
  // `taken`: the server uses the new contents.
  void CountReload(const std::string& kind, bool taken);
  // A call was refused. `code`: the name of its status code.
  void CountRefused(const std::string& code);
  // `port`: "grpc" or "metrics".
  void SetCertificateExpiry(const std::string& port, absl::Time expires);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_SECURITY_METRICS_H_
