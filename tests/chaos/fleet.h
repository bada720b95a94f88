// Everything that the clients use: the database, the replicas and Envoy.
#ifndef LONGSTREAM_TESTS_CHAOS_FLEET_H_
#define LONGSTREAM_TESTS_CHAOS_FLEET_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/chaos/database.h"
#include "tests/chaos/fronts.h"
#include "tests/chaos/options.h"
#include "tests/chaos/replica.h"
#include "tests/processes/envoy_process.h"

namespace longstream::chaos {

// Starts all of it, and waits until it serves. Throws std::runtime_error if it does not. Used by
// the thread that has made it.
class Fleet {
 public:
  // `folder`: for the files.
  Fleet(const Options& options, const std::string& folder);

  Database& database() { return *database_; }
  std::vector<Replica*> replicas() const;
  Fronts& fronts() { return *fronts_; }

  // Waits until each replica serves all models.
  void WaitUntilServing() const;
  static void WaitUntilServing(const Replica& replica);
  // Ends all replicas with SIGTERM at the same time.
  void End();

 private:
  void StartEnvoy(const std::string& folder);

  std::unique_ptr<Database> database_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  int envoy_port_ = 0;
  std::unique_ptr<EnvoyProcess> envoy_;
  std::unique_ptr<Fronts> fronts_;
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_FLEET_H_
