// The options of a chaos run, from the command line.
#ifndef LONGSTREAM_TESTS_CHAOS_OPTIONS_H_
#define LONGSTREAM_TESTS_CHAOS_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace longstream::chaos {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::string server;        // longstream-server
  std::string other_server;  // of another version; empty: there is none
  std::string models;        // the directory of the demo models
  int replicas = 4;          // 1: a server without a fleet
  int sessions = 200;
  int run_seconds = 300;
  uint64_t seed = 1;
  double pause = 4;         // mean seconds between two turns of a session
  int turn_tokens = 96;     // of every fourth turn; the others have a sixth of it
  double fault_period = 4;  // mean seconds between two faults
  int lease_seconds = 3;
  bool direct = false;             // without Envoy
  bool failover = false;           // the standby takes over in the middle
  bool rolling = false;            // no faults; each replica is replaced under load
  std::string log_level = "info";  // of the replicas
  std::string logs;                // directory for the files of a run that fails

  seconds grace() const { return seconds(3); }
  seconds drain_timeout() const { return seconds(5); }
  milliseconds lease() const { return seconds(lease_seconds); }
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_OPTIONS_H_
