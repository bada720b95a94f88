// Two replicas of a fleet, between which sessions go.
#ifndef LONGSTREAM_TESTS_BENCH_HANDOVER_REPLICA_PAIR_H_
#define LONGSTREAM_TESTS_BENCH_HANDOVER_REPLICA_PAIR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/processes/postgres_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream::bench {

// The counters of a replica that has received sessions.
struct Received {
  double sessions = 0;
  double whole_seconds = 0;   // from the question, or the offer, to the row that names the replica
  double caches_seconds = 0;  // from the header of the caches to their last byte
  double bytes = 0;

  friend Received operator-(const Received& a, const Received& b) {
    return {a.sessions - b.sessions, a.whole_seconds - b.whole_seconds,
            a.caches_seconds - b.caches_seconds, a.bytes - b.bytes};
  }
};

// A server and a connection to it.
class Replica {
 public:
  Replica(const std::string& binary, const std::vector<std::string>& arguments,
          const std::string& model);

  client::Connection& operator*() { return connection_; }
  client::Connection* operator->() { return &connection_; }
  Received received() const;
  // SIGTERM, until the server has ended. Throws std::runtime_error if it ends with an error.
  void End();
  void Kill();

 private:
  ServerProcess server_;
  client::Connection connection_;
};

// How a replica ends.
enum class Ending {
  kDrained,  // it offers its sessions
  kKilled,   // others claim them when its lease is over, and have the log alone
};

// The replicas share a database in memory. All functions throw std::runtime_error if a server does
// not do what it should.
class ReplicaPair {
 public:
  // Both serve `model`, a directory in `models`.
  ReplicaPair(std::string binary, const std::string& models, std::string model, int threads,
              uint64_t context);

  const std::string& model() const { return model_; }
  // It runs until the end.
  Replica& home() { return *home_; }
  Replica& away() { return *away_; }
  // Ends the replica that is away, and starts another one in its place. `between` runs while it is
  // gone, and its lease is over.
  template <typename Between>
  void ReplaceAway(Ending ending, const Between& between) {
    EndAway(ending);
    between();
    away_ = Start("away");
  }

 private:
  std::unique_ptr<Replica> Start(const std::string& id) const;
  void EndAway(Ending ending);

  const std::string binary_;
  const std::string model_;
  const std::string model_config_;
  const int threads_;
  const TemporaryDirectory directory_;
  PostgresServer postgres_;
  const std::string url_ = postgres_.Url(postgres_.NewDatabase());
  std::unique_ptr<Replica> home_;
  std::unique_ptr<Replica> away_;
};

}  // namespace longstream::bench

#endif  // LONGSTREAM_TESTS_BENCH_HANDOVER_REPLICA_PAIR_H_
