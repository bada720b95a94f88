// Many cheap frames: each costs the server more than the client.
#include <chrono>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kShort{5};
constexpr size_t kFrames = 1000;
using F = Http2Frame;

std::string Repeated(const std::string& part, size_t times) {
  std::string whole;
  whole.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) whole += part;
  return whole;
}

// Calls that are reset at once: after the headers, within the message, after the message, after the
// end of the client's side, or after the beginning of the answer.
void RapidReset(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  for (uint32_t call = 0; call < 100; ++call) {
    const uint32_t stream = 1 + 2 * call;
    const RemoteMethod& method = attacker.Method();
    const std::string data = GrpcMessage(RandomRequest(*method.request, attacker.random));
    const uint32_t point = attacker.Below(5);
    bool open = connection.BeginCall(stream, attacker.Headers(method.path));
    if (point == 1) {
      open = connection.SendFrame(F::kData, 0, stream, data.substr(0, data.size() / 2));
    } else if (point >= 2) {
      open = connection.SendFrame(F::kData, point == 2 ? F::kNone : F::kEndStream, stream, data);
    }
    if (point == 4 && attacker.OneIn(4)) connection.ReceiveSome(kShort);
    // Half of the codes that a client may give are defined.
    open = open && connection.SendFrame(F::kReset, 0, stream, BigEndian(attacker.Below(28), 4));
    if (!open) break;
  }
  attacker.LeaveOrHold(std::move(connection));
}

// Sends copies of a frame on a connection with an open call.
void Flood(Attacker& attacker, const std::string& frame) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  connection.BeginCall(1, attacker.Headers(attacker.Method().path));
  connection.Send(Repeated(frame, 1 + attacker.Below(kFrames)));
  // A client that does not read makes the server keep its answers.
  if (attacker.OneIn(2)) connection.Receive(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

void SettingsFlood(Attacker& attacker) {
  Flood(attacker,
        Frame(F::kSettings, 0, 0, BigEndian(4, 2) + BigEndian(attacker.Below(1 << 20), 4)));
}

void SettingsAckFlood(Attacker& attacker) { Flood(attacker, Frame(F::kSettings, F::kAck, 0, "")); }

void PingFlood(Attacker& attacker) {
  Flood(attacker, Frame(F::kPing, attacker.OneIn(2) ? F::kAck : F::kNone, 0, "12345678"));
}

void WindowFlood(Attacker& attacker) {
  Flood(attacker, Frame(F::kWindowUpdate, 0, attacker.Below(2), BigEndian(1, 4)));
}

void PriorityFlood(Attacker& attacker) {
  Flood(attacker,
        Frame(F::kPriority, 0, attacker.Stream(), BigEndian(attacker.Stream() + 100, 4) + "a"));
}

void EmptyDataFlood(Attacker& attacker) { Flood(attacker, Frame(F::kData, 0, 1, "")); }

void GoAwayFlood(Attacker& attacker) {
  Flood(attacker, Frame(F::kGoAway, 0, 0, BigEndian(0, 4) + BigEndian(attacker.Below(14), 4)));
}

// More open calls than one connection may have. Calls that stream requests then wait for them.
void ManyOpenCalls(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  const RemoteMethod& method = attacker.Method();
  const std::string data = GrpcMessage(RandomRequest(*method.request, attacker.random));
  const uint32_t count = attacker.OneIn(10) ? 1100 : 60;
  for (uint32_t call = 0; call < count; ++call) {
    const uint32_t stream = 1 + 2 * call;
    if (!connection.BeginCall(stream, attacker.Headers(method.path))) break;
    if (call % 2 == 0) connection.SendFrame(F::kData, 0, stream, data);
  }
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

}  // namespace

std::vector<Attack> FloodAttacks() {
  return {{"rapid reset", 6, RapidReset},
          {"flood of SETTINGS", 2, SettingsFlood},
          {"flood of SETTINGS answers", 2, SettingsAckFlood},
          {"flood of PING", 2, PingFlood},
          {"flood of WINDOW_UPDATE", 2, WindowFlood},
          {"flood of PRIORITY", 2, PriorityFlood},
          {"flood of empty DATA", 2, EmptyDataFlood},
          {"flood of GOAWAY", 2, GoAwayFlood},
          {"many open calls", 3, ManyOpenCalls}};
}

}  // namespace longstream
