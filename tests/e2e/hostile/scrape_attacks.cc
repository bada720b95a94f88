// Attacks on the metrics port, which speaks HTTP/1.
#include <chrono>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kShort{5};

std::string RandomScrape(Attacker& attacker) {
  const std::string get = "GET /metrics HTTP/1.1\r\n";
  switch (attacker.Below(10)) {
    case 0:
      return attacker.RandomBytes(attacker.Below(4096));
    case 1:
      return "GET /" + std::string(attacker.Below(200000), 'p');
    case 2:
      return get + "x: " + std::string(attacker.Below(200000), 'v');
    case 3: {
      std::string request = get;
      for (uint32_t left = attacker.Below(5000); left > 0; --left) request += "a: b\r\n";
      return request + "\r\n";
    }
    case 4:
      return "POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n" +
             std::string(attacker.Below(100000), 'b');
    case 5:
      return std::string(kHttp2Preface) + std::string(kEmptySettings);
    case 6:
      return "GET /metrics HTTP/9.9\r\n\r\n" + get + "\r\n" + get + "\r\n";
    case 7:
      return "HEAD /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
             "chunked\r\n\r\nffffffffff\r\n";
    case 8:
      return std::string("GET /metrics\0 HTTP/1.1\n\n", 24);
    default:
      return get.substr(0, attacker.Below(get.size()));
  }
}

void HostileScrape(Attacker& attacker) {
  AttackConnection connection(attacker.target.metrics_port);
  connection.Send(RandomScrape(attacker));
  if (attacker.OneIn(2)) connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// Asks for the metrics and does not read them.
void UnreadScrape(Attacker& attacker) {
  AttackConnection connection(attacker.target.metrics_port);
  connection.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  attacker.Hold(std::move(connection));
}

void TooManyScrapes(Attacker& attacker) {
  std::vector<TcpClient> connections;
  connections.reserve(100);
  for (int i = 0; i < 100; ++i) connections.emplace_back(attacker.target.metrics_port);
  for (TcpClient& connection : connections) connection.Reset();
}

}  // namespace

std::vector<Attack> ScrapeAttacks() {
  return {{"hostile scrape", 8, HostileScrape},
          {"unread scrape", 2, UnreadScrape},
          {"too many scrapes", 1, TooManyScrapes}};
}

}  // namespace longstream
