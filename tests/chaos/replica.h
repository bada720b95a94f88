// A server of the fleet, started again whenever it ends, and what a test does to it.
#ifndef LONGSTREAM_TESTS_CHAOS_REPLICA_H_
#define LONGSTREAM_TESTS_CHAOS_REPLICA_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/options.h"
#include "tests/processes/dropping_proxy.h"
#include "tests/processes/server_process.h"

namespace longstream::chaos {

// All connections to the replica, of clients and of peers, and its own to the database, lead
// through proxies that can cut them. Thread-safe.
class Replica {
 public:
  enum class State {
    kDown,      // it has ended, or has not started yet
    kUp,        // its port is open
    kPaused,    // SIGSTOP
    kDraining,  // SIGTERM
  };
  struct Counts {
    int starts = 0;
    int failed_starts = 0;  // it ended before it listened, because the database was down
    int kills = 0;
    int drains = 0;
    int pauses = 0;
    double slowest_drain = 0;           // seconds
    std::vector<std::string> faults{};  // it ended by itself, or not in time, or with an error
  };

  // `folder`: of its files. `database_ports`: of the primary and of its standby. `store_url` makes
  // the URL of the database at such ports.
  Replica(const Options& options, int number, std::string folder,
          const std::vector<int>& database_ports,
          const std::function<std::string(const std::vector<int>& ports)>& store_url);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const std::string& name() const { return name_; }
  State state() const { return state_; }
  int port() const { return calls_.port(); }
  std::string address() const { return calls_.address(); }

  // Each returns false, and does nothing, unless the replica is up. It is started again when it has
  // been down for `down`.
  bool Kill(milliseconds down);
  bool Drain(milliseconds down);
  bool Pause(milliseconds time);

  void CutCalls() { calls_.Drop(); }
  void CutPeers() { peers_.Drop(); }
  void CutStore();
  // From now on, this server of the database (an index of the constructor's ports) refuses the
  // replica's connections, as a machine that is gone does.
  void RefuseDatabase(size_t server);

  // Ends the replica with SIGTERM, for good.
  void End();
  Counts counts() const;

 private:
  void WriteConfig(const Options& options, const std::string& store_url);
  void Keep();
  // REQUIRES: mutex_ is held.
  void Start();
  void Watch();
  void HasEnded();
  void SaveLog(const std::string& text) const;

  const std::string name_;
  const std::string folder_;
  const std::string config_ = folder_ + "/" + name_ + ".yaml";
  const milliseconds longest_drain_;
  const bool in_fleet_;
  const int peer_port_;
  std::vector<std::string> binaries_;  // each start takes the next one
  std::vector<std::string> arguments_;
  DroppingProxy calls_;
  DroppingProxy peers_;
  std::vector<std::unique_ptr<DroppingProxy>> database_;

  std::atomic<State> state_{State::kDown};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards the rest
  std::unique_ptr<ServerProcess> server_;
  bool killed_ = false;           // by this test
  bool is_last_ = false;          // it is not started again
  Clock::time_point start_at_{};  // of State::kDown
  Clock::time_point wake_at_{};   // of State::kPaused
  Clock::time_point drained_since_{};
  milliseconds down_{0};
  Counts counts_;
  std::thread keeper_;  // the last member: it uses the others, and its end is the server's
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_REPLICA_H_
