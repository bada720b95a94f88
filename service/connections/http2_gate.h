// The gRPC port until gRPC gets a connection: accepts connections within limits, waits for the
// first bytes of HTTP/2 or TLS and hands the connection over.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_HTTP2_GATE_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_HTTP2_GATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/connections/accept_loop.h"
#include "service/connections/descriptor.h"
#include "service/connections/first_requests.h"
#include "service/connections/handed_over.h"
#include "service/connections/listening_sockets.h"
#include "service/metrics/connection_metrics.h"

namespace longstream {

// gRPC's own listener has no limit of connections, lets a connection send nothing for minutes, and
// never accepts again after the process has once run out of descriptors. So the gate accepts.
//
// A connection counts from the moment when it is accepted until its descriptor is closed. gRPC does
// not report that, so the gate looks at the descriptors once a second, and when a limit is reached.
//
// Thread-safe.
class Http2Gate final : private ConnectionHandler {
 public:
  struct Options {
    size_t max_connections = 0;  // further ones are closed at once
    size_t max_per_address = 0;  // the same for one address of a peer; 0: no limit
    absl::Duration preface_timeout = absl::Seconds(10);  // the time for the first bytes
    // The first bytes must be those of a TLS handshake. Otherwise: the preface of HTTP/2.
    bool tls = false;
    // Limits the time for the first request. Outlives the gate; null: no limit.
    FirstRequests* first_requests = nullptr;
    ConnectionMetrics* metrics = nullptr;  // outlives the gate; null: nothing is counted
  };
  // Takes ownership of a connected socket that does not block, whose first bytes can be read.
  // Called on the gate's thread.
  using HandOver = std::function<void(int descriptor)>;

  // Starts to accept. RESOURCE_EXHAUSTED: no descriptor is left.
  static absl::StatusOr<std::unique_ptr<Http2Gate>> Start(ListeningSockets listening,
                                                          const Options& options,
                                                          HandOver hand_over);
  ~Http2Gate() override;

  // Closes the listening sockets, and the connections that wait for their preface. When it
  // returns, HandOver will not be called again.
  void StopAccepting() { loop_->StopAccepting(); }

 private:
  struct Waiting {
    Descriptor socket;
    sockaddr_storage address;
    std::string peer;  // its PeerKey
    MonotonicTime deadline;
  };

  Http2Gate(const Options& options, HandOver hand_over);

  void OnConnection(Descriptor connection, const sockaddr_storage& address) override;
  void OnNoDescriptor() override;
  void OnReady(int descriptor) override;
  MonotonicTime OnTime(MonotonicTime now) override;
  void OnAcceptingStopped() override;

  size_t connections() const { return waiting_.size() + handed_over_.size(); }
  bool IsFull() const { return connections() >= options_.max_connections; }
  bool IsFull(const std::string& peer) const;
  // Returns whether there is room for a connection of `peer`, and counts the refusal if not.
  bool Admits(const std::string& peer);
  void CountRefused(RefusedConnection reason) const;
  void ForgetPeer(const std::string& peer);
  // Forgets the connections that gRPC has closed.
  void Sweep();
  void Close(std::list<Waiting>::iterator connection);
  void Serve(std::list<Waiting>::iterator connection);

  const Options options_;
  const HandOver hand_over_;
  std::list<Waiting> waiting_;  // for the preface, in the order of their deadlines
  std::unordered_map<int, std::list<Waiting>::iterator> waiting_by_descriptor_;
  HandedOver handed_over_;
  std::unordered_map<std::string, size_t> by_peer_;      // open connections
  MonotonicTime swept_ = MonotonicTime::InfinitePast();  // the end of the last sweep
  absl::Duration sweep_took_;
  std::unique_ptr<AcceptLoop> loop_;  // the last member: its thread uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_HTTP2_GATE_H_
