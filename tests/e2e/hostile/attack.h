// One attack of a hostile client, and what attacks share.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/hostile/attack_connection.h"
#include "tests/e2e/hostile/remote_method.h"
#include "tests/processes/http2_frames.h"

namespace longstream {

// The server that is attacked.
struct Target {
  int port = 0;
  int metrics_port = 0;
  size_t max_message_bytes = 0;  // as in the server's configuration
  size_t max_connections = 0;
  std::vector<RemoteMethod> methods;
  // Values of the header "authorization" of which a call has one at random; empty: none. No values:
  // the server asks for none.
  std::vector<std::string> authorizations;
};

// The tools of one thread of the attacker. Not thread-safe.
struct Attacker {
  const Target& target;
  std::mt19937 random;
  // Connections that stay open and silent. Hold drops the oldest ones.
  std::deque<AttackConnection> held;
  uint64_t sent = 0;  // bytes to the server
  // The number of the next pair of a method and a way to mangle its request. Thread t of T begins
  // at t and goes on in steps of T, so that together they try all pairs.
  size_t request = 0;
  size_t request_step = 1;

  uint32_t Below(size_t limit) { return static_cast<uint32_t>(random() % limit); }
  bool OneIn(size_t count) { return Below(count) == 0; }
  std::string RandomBytes(size_t size);
  // A method of any service.
  const RemoteMethod& Method() { return target.methods[Below(target.methods.size())]; }
  // The headers of a call, with or without a credential.
  Http2Headers Headers(const std::string& path);
  // A number of a stream that a client may use.
  uint32_t Stream() { return 1 + 2 * Below(50); }

  // Ends the connection, or keeps it open, at random.
  void LeaveOrHold(AttackConnection connection);
  void Leave(AttackConnection connection);
  void Hold(AttackConnection connection);
  void DropHeld();
};

struct Attack {
  const char* name;
  int weight;  // how often it is chosen, relative to the others
  void (*run)(Attacker& attacker);
};

// All attacks that are known.
std::vector<Attack> AllAttacks();

// The attacks of one file each.
std::vector<Attack> ConnectionAttacks();
std::vector<Attack> FrameAttacks();
std::vector<Attack> FloodAttacks();
std::vector<Attack> HeaderAttacks();
std::vector<Attack> RequestAttacks();
std::vector<Attack> ScrapeAttacks();

// The ways in which RequestAttacks mangle the requests to each method.
size_t NumWaysToMangle();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_H_
