// The Prometheus metrics of the connections to one port. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_CONNECTION_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_CONNECTION_METRICS_H_

#include <cstddef>
#include <memory>
#include <string>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Why the server closed a connection before it served a request on it.
enum class RefusedConnection {
  kTotal,        // too many connections to the port
  kPeer,         // too many connections from the peer's address
  kDescriptors,  // the process or the machine has no descriptor left
  kTimeout,      // the client did not send the beginning of its request in time
  kProtocol,     // the client sent bytes that do not belong to the port's protocol
};

// Thread-safe. The registry must outlive it.
class ConnectionMetrics {
 public:
  // `port`: the value of the label: "grpc", "metrics", "cluster", "peer" or "admin".
  ConnectionMetrics(prometheus::Registry* registry, const std::string& port);
  ~ConnectionMetrics();
  ConnectionMetrics(const ConnectionMetrics&) = delete;
  ConnectionMetrics& operator=(const ConnectionMetrics&) = delete;

  void SetOpen(size_t connections);
  // Counts a connection that the server has accepted, also if it refuses the connection then.
  void CountAccepted();
  void CountRefused(RefusedConnection reason);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_CONNECTION_METRICS_H_
