// Serves HTTP/1.1 on a port.
#ifndef LONGSTREAM_GATEWAY_HTTP_HTTP_SERVER_H_
#define LONGSTREAM_GATEWAY_HTTP_HTTP_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gateway/http/handler_threads.h"
#include "gateway/http/http_connection.h"
#include "service/clock/monotonic_time.h"
#include "service/connections/accept_loop.h"
#include "service/connections/streams/tls_acceptor.h"
#include "service/metrics/connection_metrics.h"
#include "service/security/certificates.h"

namespace longstream::gateway {

// One thread reads and writes all connections, and none of them can make it wait. The handler of a
// request runs on a thread of its own. If there are too many connections, a new one replaces the
// idle connection whose time ends first, or is refused. Thread-safe.
class HttpServer final : private ConnectionHandler {
 public:
  struct Options {
    std::string listen = "127.0.0.1:8080";  // host:port; port 0 takes any free port
    RequestLimits limits = {};
    ConnectionTimes times = {};
    // For all requests that are being read or answered, and all answers that are being written. A
    // request that would exceed it is refused.
    uint64_t max_held_bytes = uint64_t{1} << 30;
    size_t max_connections = 1024;
    size_t max_requests = 256;  // that are answered at once
    // Requests that need no turn of a model have threads of their own, so that a full server still
    // says how it is. Empty: there are none.
    std::function<bool(const HttpRequest& request)> is_short = {};
    size_t max_short_requests = 16;
    std::shared_ptr<const CurrentCertificates> certificates = nullptr;  // null: plain text
    ClientCertificates client_certificates = ClientCertificates::kNone;
    ConnectionMetrics* metrics = nullptr;  // outlives the server; null: none
  };
  // Answers a request. It may block.
  using Handler = std::function<void(Exchange& exchange)>;

  // UNAVAILABLE: the address cannot be bound. RESOURCE_EXHAUSTED: no descriptor is left.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Handler handler);
  ~HttpServer() override;

  int port() const { return port_; }

  // Accepts no further connection and no further request on those that are open. Requests that are
  // being answered go on.
  void StopAccepting();
  // Stops accepting. Waits until the clients have got the answers of their requests, at most for
  // this time.
  void WaitForAnswers(absl::Duration timeout);

  // Stops accepting. Waits until the clients have got the answers of their requests, at most for
  // `grace`; then ends the connections and waits for the handlers.
  void Shutdown(absl::Duration grace);

 private:
  struct Place {
    std::unique_ptr<HttpConnection> connection;
    MonotonicTime deadline;
    size_t held_bytes = 0;
    bool answering = false;
  };

  HttpServer(const Options& options, Handler handler);

  void OnConnection(Descriptor connection, const sockaddr_storage& peer) override;
  void OnNoDescriptor() override;
  void OnReady(int descriptor) override;
  MonotonicTime OnTime(MonotonicTime now) override;
  void OnAcceptingStopped() override;

  std::unique_ptr<ByteStream> StreamOn(Descriptor connection);
  void BeginAnswer(const std::shared_ptr<Exchange>& exchange);
  // Another thread has bytes for the connection.
  void Wake(int descriptor) ABSL_LOCKS_EXCLUDED(mutex_);
  void Proceed(int descriptor);
  // Brings the sums and deadlines up to date, and removes a connection that has ended.
  void Settle(int descriptor);
  // Sets the numbers of a place, and adds them to the sums over places_.
  void SetSums(Place& place, size_t held_bytes, bool answering) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(int descriptor, bool timed_out);
  // Ends the idle connection whose time ends first. False: none is idle.
  bool EndIdle();
  void Count(RefusedConnection reason) const;
  std::string TooManyBytes() const;
  bool HasAnswered() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return answering_ == 0; }

  const Options options_;
  const Handler handler_;
  std::optional<TlsAcceptor> tls_;  // absent: plain text
  int port_ = 0;

  // The loop's thread:
  std::map<int, Place> places_;                        // by descriptor
  std::set<std::pair<MonotonicTime, int>> deadlines_;  // of places_
  uint64_t held_bytes_ = 0;                            // the sum over places_
  std::atomic<uint64_t> handled_bytes_ = 0;            // that the handlers make of requests
  bool draining_ = false;

  absl::Mutex mutex_;
  std::set<int> woken_ ABSL_GUARDED_BY(mutex_);  // descriptors
  int answering_ ABSL_GUARDED_BY(mutex_) = 0;    // of places_
  bool end_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_all_ ABSL_GUARDED_BY(mutex_) = false;  // no request begins any more

  std::unique_ptr<AcceptLoop> loop_;
  HandlerThreads threads_;  // the last member: its threads use the others
  HandlerThreads short_threads_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_HTTP_SERVER_H_
