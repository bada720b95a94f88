// A server of HTTP on a free port, for tests.
#ifndef LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_SERVER_FIXTURE_H_
#define LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "gateway/http/http_server.h"
#include "tests/gateway/http/http_client.h"
#include "tests/service/metric_value.h"

namespace longstream::gateway {

// Answers with the body of the request.
inline void Echo(Exchange& exchange) {
  HttpAnswer answer;
  answer.content_type = "text/plain";
  answer.body = exchange.request().body;
  exchange.Answer(answer);
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() : metrics_(registry_.get(), "gateway") { std::signal(SIGPIPE, SIG_IGN); }

  void Start(HttpServer::Options options, HttpServer::Handler handler) {
    options.listen = "127.0.0.1:0";
    options.metrics = &metrics_;
    auto server = HttpServer::Start(options, std::move(handler));
    if (!server.ok()) throw std::runtime_error(server.status().ToString());
    server_ = *std::move(server);
  }
  HttpClient Connect() const { return HttpClient(server_->port()); }
  HttpResponse Ask(std::string_view request) const { return Connect().Ask(request); }
  double Refused(const std::string& reason) const {
    return MetricValue(*registry_, "longstream_connections_refused_total", {{"reason", reason}});
  }
  double WaitForRefused(double count, const std::string& reason) const {
    return WaitForMetric(*registry_, count, "longstream_connections_refused_total",
                         {{"reason", reason}});
  }
  double WaitForOpen(double count) const {
    return WaitForMetric(*registry_, count, "longstream_connections");
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  ConnectionMetrics metrics_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_SERVER_FIXTURE_H_
