// Serves the process's metrics to Prometheus over HTTP, on a port of its own.
#ifndef LONGSTREAM_SERVICE_SCRAPES_METRICS_SERVER_H_
#define LONGSTREAM_SERVICE_SCRAPES_METRICS_SERVER_H_

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/connections/accept_loop.h"
#include "service/connections/streams/tls_acceptor.h"
#include "service/metrics/connection_metrics.h"
#include "service/scrapes/http_exchange.h"
#include "service/security/certificates.h"
#include "service/security/guard.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// The callers that may read the metrics.
struct ScrapeSecurity {
  std::shared_ptr<const CurrentCertificates> certificates = nullptr;  // null: plain text
  ClientCertificates clients = ClientCertificates::kNone;
  // Each request needs a credential of an operator. Outlives the server; null: none is needed.
  const Guard* guard = nullptr;
};

// Answers GET /metrics in Prometheus's text format, each request on a connection of its own.
//
// One thread serves all connections, and none of them can make it wait. Each has a time limit. If
// there are too many connections, a new connection replaces the oldest one. So clients that send or
// read slowly do not delay an honest scrape, whatever their number.
//
// Thread-safe.
class MetricsServer final : private ConnectionHandler {
 public:
  // `listen`: host:port. Port 0 takes any free port. `timeout`: for a request and its answer.
  // UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& listen, std::shared_ptr<prometheus::Registry> registry,
      absl::Duration timeout = absl::Seconds(5), const ScrapeSecurity& security = {});
  ~MetricsServer() override;

  int port() const { return port_; }

 private:
  struct Own;  // metrics of this server
  struct Scrape {
    HttpExchange exchange;
    MonotonicTime deadline;
  };

  MetricsServer(std::shared_ptr<prometheus::Registry> registry, absl::Duration timeout,
                const ScrapeSecurity& security);

  void OnConnection(Descriptor connection, const sockaddr_storage& peer) override;
  void OnNoDescriptor() override;
  void OnReady(int descriptor) override;
  MonotonicTime OnTime(MonotonicTime now) override;
  void OnAcceptingStopped() override {}

  // Null if TLS cannot begin.
  std::unique_ptr<ByteStream> StreamOn(Descriptor connection);
  HttpAnswer Answer(const HttpRequest& request);
  void Proceed(std::list<Scrape>::iterator scrape);
  void Close(std::list<Scrape>::iterator scrape);
  // Closes a connection that the server did not serve to its end, and counts the reason.
  void Refuse(std::list<Scrape>::iterator scrape, RefusedConnection reason);

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::unique_ptr<Own> own_;
  const absl::Duration timeout_;
  const size_t max_connections_;
  const Guard* const guard_;
  std::optional<TlsAcceptor> tls_;  // absent: plain text
  int port_ = 0;
  std::list<Scrape> scrapes_;  // in the order of their deadlines
  std::unordered_map<int, std::list<Scrape>::iterator> by_descriptor_;
  std::unique_ptr<AcceptLoop> loop_;  // the last member: its thread uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SCRAPES_METRICS_SERVER_H_
