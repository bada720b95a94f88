// The Prometheus metrics of the gateway. docs/metrics.md lists their names.
#ifndef LONGSTREAM_GATEWAY_GATEWAY_METRICS_H_
#define LONGSTREAM_GATEWAY_GATEWAY_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "service/metrics/connection_metrics.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream::gateway {

// Thread-safe. The registry must outlive it.
class GatewayMetrics {
 public:
  explicit GatewayMetrics(prometheus::Registry* registry);
  ~GatewayMetrics();
  GatewayMetrics(const GatewayMetrics&) = delete;
  GatewayMetrics& operator=(const GatewayMetrics&) = delete;

  ConnectionMetrics* connections() { return &connections_; }

  // A request has been answered. `route`: such as "/v1/models", or "other".
  void CountRequest(const std::string& route, int status, absl::Duration time);
  // A turn has ended. `session`: "new", "continued" or "forked".
  void CountTurn(const std::string& session, uint64_t prompt_tokens, uint64_t cached_tokens);
  // Notes with which other gateways find a session or a response were written, or could not be.
  void CountNotes(bool written);
  // The sessions that the gateway keeps for conversations.
  void SetSessions(size_t sessions);

 private:
  struct Families;
  ConnectionMetrics connections_;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_GATEWAY_METRICS_H_
