// A real Envoy takes ORCA's load reports from two servers, and gives the slower one fewer turns.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/envoy_process.h"
#include "tests/processes/free_port.h"
#include "tests/processes/server_process.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

constexpr std::chrono::seconds kReportPatience{60};

std::string ReadPage(const std::string& name) {
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/docs/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Replace(const std::string& from, const std::string& to, std::string* text) {
  const size_t found = text->find(from);
  if (found == std::string::npos) throw std::runtime_error("the page has no " + from);
  text->replace(found, from.size(), to);
}

// The block of docs/configuration.md that makes Envoy take reports, four columns to the right.
std::string Policy(int orca_port) {
  const std::string page = ReadPage("configuration.md");
  const size_t begin = page.find("load_balancing_policy:");
  if (begin == std::string::npos) throw std::runtime_error("the page has no policy");
  std::string policy = page.substr(begin, page.find("```", begin) - begin);
  Replace("port_value: 9465", "port_value: " + std::to_string(orca_port), &policy);
  // Without these lines weights count after ten seconds.
  Replace("oob_reporting_period: 1s",
          "oob_reporting_period: 1s\n          blackout_period: 0.1s\n"
          "          weight_update_period: 0.1s",
          &policy);
  std::string indented = "    ";
  for (const char c : policy) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  return indented.substr(0, indented.size() - 4);
}

std::string Endpoint(const std::string& address) {
  const size_t colon = address.find(':');
  return "- endpoint: {address: {socket_address: {address: " + address.substr(0, colon) +
         ", port_value: " + address.substr(colon + 1) + "}}}";
}

// docs/envoy.yaml in front of two servers, with the policy, and a port that shows Envoy's counts.
std::string EnvoyConfig(int port, int admin_port, int orca_port, const std::string& first,
                        const std::string& second) {
  std::string text = ReadPage("envoy.yaml");
  Replace("address: 0.0.0.0, port_value: 8443",
          "address: 127.0.0.1, port_value: " + std::to_string(port), &text);
  Replace(Endpoint("127.0.0.1:50051"), Endpoint(first) + "\n        " + Endpoint(second), &text);
  Replace("    load_assignment:", Policy(orca_port) + "    load_assignment:", &text);
  return "admin: {address: {socket_address: {address: 127.0.0.1, port_value: " +
         std::to_string(admin_port) + "}}}\n" + text;
}

// One of Envoy's counts. 0: there is none of this name.
long EnvoyCount(int admin_port, const std::string& name) {
  const TcpClient connection(admin_port);
  if (!connection.Send("GET /stats?filter=" + name +
                       " HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\n\r\n")) {
    return 0;
  }
  const std::string answer = connection.ReceiveAll();
  const size_t found = answer.find(name + ": ");
  return found == std::string::npos ? 0 : std::atol(answer.c_str() + found + name.size() + 2);
}

// Clients that generate one turn after the other, until the object is destroyed. Each server has a
// session of the same id for each client, so any of them can run its turns.
class Clients {
 public:
  Clients(const std::string& envoy, const std::vector<std::string>& servers, int number) {
    for (int i = 0; i < number; ++i) {
      const std::string id = std::string(31, '0') + static_cast<char>('0' + i);
      for (const std::string& server : servers) client::Connection(server).Open("m", id);
      threads_.emplace_back([this, envoy, id] {
        client::Connection connection(envoy);
        v1::GenerateRequest request;
        request.set_session_id(id);
        request.mutable_input()->set_text("abc");
        request.set_max_tokens(20);
        while (!ends_) EXPECT_EQ(connection.Collect(request).tokens(), 20);
      });
    }
  }
  ~Clients() {
    ends_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

 private:
  std::atomic<bool> ends_ = false;
  std::vector<std::thread> threads_;
};

double TurnsOf(const ServerProcess& server) {
  return SampleValue(Scrape(server.metrics_port()), "longstream_requests_total", {{"code", "OK"}})
      .value_or(0);
}

class LoadReportsTest : public testing::Test {
 protected:
  // Both servers have the same port for reports, because Envoy's configuration has one for all.
  ServerProcess Server(const std::string& host, const std::string& delay) {
    return ServerProcess(kServerBinary,
                         {"--model", files_.Flag(",options.step_delay_us=" + delay),
                          "--cluster-listen", host + ":" + std::to_string(orca_port_)},
                         {}, host);
  }

  const MinimalModelDirectory files_;
  const int orca_port_ = FreePort();
};

TEST_F(LoadReportsTest, TheFasterServerGetsMoreTurns) {
  const ServerProcess fast = Server("127.0.0.1", "2000");
  const ServerProcess slow = Server("127.0.0.2", "20000");
  for (const ServerProcess* server : {&fast, &slow}) {
    client::Connection(server->address()).WaitUntilServing("m", kReportPatience);
  }
  const int port = FreePort();
  const int admin_port = FreePort();
  const EnvoyProcess envoy(files_.Write("envoy.yaml", EnvoyConfig(port, admin_port, orca_port_,
                                                                  fast.address(), slow.address())),
                           files_.string() + "/log", port);
  const Clients clients("127.0.0.1:" + std::to_string(port), {fast.address(), slow.address()}, 8);

  // Round robin without weights gives each server half of the turns.
  double share = 0;
  const auto give_up = std::chrono::steady_clock::now() + kReportPatience;
  double fast_before = TurnsOf(fast);
  double slow_before = TurnsOf(slow);
  while (share < 0.75 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double of_fast = TurnsOf(fast) - fast_before;
    const double of_slow = TurnsOf(slow) - slow_before;
    if (of_fast + of_slow < 60) continue;
    share = of_fast / (of_fast + of_slow);
    fast_before += of_fast;
    slow_before += of_slow;
  }
  EXPECT_GE(share, 0.75);
  EXPECT_GE(EnvoyCount(admin_port, "cluster.longstream.lb_orca_oob.reports_received"), 2);
  EXPECT_EQ(EnvoyCount(admin_port, "cluster.longstream.lb_orca_oob.active_sessions"), 2);
}

}  // namespace
}  // namespace longstream
