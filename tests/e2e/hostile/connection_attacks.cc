// Attacks before or without HTTP/2: other protocols, parts of the preface, silence, and too many
// connections.
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShort{5};

void OtherProtocol(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  switch (attacker.Below(4)) {
    case 0:
      connection.Send(attacker.RandomBytes(1 + attacker.Below(4096)));
      break;
    case 1:
      connection.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
      break;
    case 2:  // the beginning of TLS
      connection.Send("\x16\x03\x01\x02" + attacker.RandomBytes(516));
      break;
    default:  // a preface with a wrong byte
      std::string preface(kHttp2Preface);
      preface[attacker.Below(preface.size())] ^= static_cast<char>(1 + attacker.Below(255));
      connection.Send(preface + std::string(kEmptySettings));
      break;
  }
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

void PartOfThePreface(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  const std::string whole = std::string(kHttp2Preface) + std::string(kEmptySettings);
  connection.Send(whole.substr(0, attacker.Below(whole.size())));
  attacker.LeaveOrHold(std::move(connection));
}

// Byte by byte, with a pause after each.
void SlowPreface(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  for (const char byte : std::string(kHttp2Preface) + std::string(kEmptySettings)) {
    if (!connection.Send({&byte, 1})) break;
    connection.Receive(milliseconds(attacker.Below(3)));
  }
  attacker.LeaveOrHold(std::move(connection));
}

// One more byte on connections that are open already, whatever they have sent before.
void TrickleOnHeldConnections(Attacker& attacker) {
  for (AttackConnection& connection : attacker.held) connection.Send(attacker.RandomBytes(1));
}

void Silence(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  if (attacker.OneIn(2)) connection.Greet();
  attacker.Hold(std::move(connection));
}

// More connections than the server allows. They end by RST, so that no port stays in TIME_WAIT.
void TooManyConnections(Attacker& attacker) {
  std::vector<TcpClient> connections;
  const size_t count = attacker.target.max_connections + attacker.target.max_connections / 4;
  try {
    while (connections.size() < count) {
      connections.emplace_back(attacker.target.port);
      if (attacker.OneIn(4)) connections.back().Send(kHttp2Preface);
    }
  } catch (const std::runtime_error&) {
    // The attacker has no descriptor or port left. It has enough connections then.
  }
  for (TcpClient& connection : connections) connection.Reset();
}

}  // namespace

std::vector<Attack> ConnectionAttacks() {
  return {{"other protocol", 4, OtherProtocol},
          {"part of the preface", 4, PartOfThePreface},
          {"slow preface", 2, SlowPreface},
          {"trickle on held connections", 3, TrickleOnHeldConnections},
          {"silent connection", 4, Silence},
          {"too many connections", 1, TooManyConnections}};
}

}  // namespace longstream
