// Renders the metrics, and keeps the connections in the order of their deadlines.
#include "service/scrapes/metrics_server.h"

#include <prometheus/counter.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>
#include <sys/epoll.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/connections/descriptor_shares.h"
#include "service/connections/listening_sockets.h"

namespace longstream {
// The exposer of prometheus-cpp has metrics of these names, and dashboards use them.
struct MetricsServer::Own {
  explicit Own(prometheus::Registry* registry)
      : connections(registry, "metrics"),
        transferred(prometheus::BuildCounter()
                        .Name("exposer_transferred_bytes_total")
                        .Help("Bytes of metrics that were sent")
                        .Register(*registry)
                        .Add({})),
        scrapes(prometheus::BuildCounter()
                    .Name("exposer_scrapes_total")
                    .Help("Number of times that the metrics were read")
                    .Register(*registry)
                    .Add({})),
        latencies(
            prometheus::BuildSummary()
                .Name("exposer_request_latencies")
                .Help("Time to collect and render the metrics, in microseconds")
                .Register(*registry)
                .Add({}, prometheus::Summary::Quantiles{{0.5, 0.05}, {0.9, 0.01}, {0.99, 0.001}})) {
  }

  ConnectionMetrics connections;
  prometheus::Counter& transferred;
  prometheus::Counter& scrapes;
  prometheus::Summary& latencies;
};

MetricsServer::MetricsServer(std::shared_ptr<prometheus::Registry> registry, absl::Duration timeout,
                             const ScrapeSecurity& security)
    : registry_(std::move(registry)),
      own_(std::make_unique<Own>(registry_.get())),
      timeout_(timeout),
      max_connections_(ShareDescriptors(DescriptorLimit()).scrapes),
      guard_(security.guard) {
  if (security.certificates != nullptr) tls_.emplace(security.certificates, security.clients);
}

MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& listen, std::shared_ptr<prometheus::Registry> registry,
    absl::Duration timeout, const ScrapeSecurity& security) {
  absl::StatusOr<ListeningSockets> listening = Listen(listen, timeout);
  if (!listening.ok()) {
    return absl::UnavailableError(absl::StrCat("metrics_listen: ", listening.status().message()));
  }
  absl::StatusOr<std::unique_ptr<AcceptLoop>> loop =
      AcceptLoop::Create(std::move(listening->sockets));
  if (!loop.ok()) return loop.status();
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(registry), timeout, security));
  server->port_ = listening->port;
  server->loop_ = *std::move(loop);
  server->loop_->Start(server.get());
  return server;
}

void MetricsServer::OnConnection(Descriptor connection, const sockaddr_storage& /*peer*/) {
  own_->connections.CountAccepted();
  const int descriptor = connection.number();
  if (!loop_->Watch(descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
    return own_->connections.CountRefused(RefusedConnection::kDescriptors);
  }
  std::unique_ptr<ByteStream> stream = StreamOn(std::move(connection));
  if (stream == nullptr) return own_->connections.CountRefused(RefusedConnection::kProtocol);
  if (scrapes_.size() >= max_connections_) {
    Refuse(scrapes_.begin(), RefusedConnection::kTotal);
  }
  scrapes_.push_back(
      {HttpExchange(
           std::move(stream), [this](const HttpRequest& request) { return Answer(request); },
           [this] { own_->connections.CountRefused(RefusedConnection::kProtocol); }),
       MonotonicTime::Now() + timeout_});
  by_descriptor_[descriptor] = std::prev(scrapes_.end());
  Proceed(std::prev(scrapes_.end()));
}

void MetricsServer::OnNoDescriptor() {
  own_->connections.CountAccepted();
  own_->connections.CountRefused(RefusedConnection::kDescriptors);
}

void MetricsServer::OnReady(int descriptor) {
  const auto found = by_descriptor_.find(descriptor);
  if (found != by_descriptor_.end()) Proceed(found->second);
}

void MetricsServer::Proceed(std::list<Scrape>::iterator scrape) {
  scrape->exchange.Proceed();
  if (scrape->exchange.state() == HttpExchange::State::kEnded) Close(scrape);
}

void MetricsServer::Refuse(std::list<Scrape>::iterator scrape, RefusedConnection reason) {
  const bool answered = scrape->exchange.state() == HttpExchange::State::kClosing;
  // A malformed request was counted when its answer was made.
  if (!answered && !scrape->exchange.malformed()) own_->connections.CountRefused(reason);
  Close(scrape);
}

void MetricsServer::Close(std::list<Scrape>::iterator scrape) {
  by_descriptor_.erase(scrape->exchange.descriptor());
  scrapes_.erase(scrape);
}

MonotonicTime MetricsServer::OnTime(MonotonicTime now) {
  while (!scrapes_.empty() && scrapes_.front().deadline <= now) {
    Refuse(scrapes_.begin(), RefusedConnection::kTimeout);
  }
  own_->connections.SetOpen(scrapes_.size());
  return scrapes_.empty() ? MonotonicTime::InfiniteFuture() : scrapes_.front().deadline;
}

std::unique_ptr<ByteStream> MetricsServer::StreamOn(Descriptor connection) {
  if (tls_.has_value()) return tls_->Accept(std::move(connection));
  return std::make_unique<PlainStream>(std::move(connection));
}

HttpAnswer MetricsServer::Answer(const HttpRequest& request) {
  if (guard_ != nullptr) {
    const absl::Status status =
        guard_->AuthorizeRole("/metrics", Role::kOperator, request.credentials, "").status();
    if (absl::IsUnauthenticated(status)) {
      return {"401 Unauthorized", "WWW-Authenticate: Bearer", absl::StrCat(status.message(), "\n")};
    }
    if (!status.ok()) return {"403 Forbidden", "", absl::StrCat(status.message(), "\n")};
  }
  if (request.target != "/metrics") return {"404 Not Found", "", "The metrics are at /metrics.\n"};
  const MonotonicTime begin = MonotonicTime::Now();
  HttpAnswer answer{"200 OK", "", prometheus::TextSerializer().Serialize(registry_->Collect())};
  own_->latencies.Observe(absl::ToDoubleMicroseconds(MonotonicTime::Now() - begin));
  own_->transferred.Increment(static_cast<double>(answer.body.size()));
  own_->scrapes.Increment();
  return answer;
}

}  // namespace longstream
