// The database of the fleet, and its standby.
#ifndef LONGSTREAM_TESTS_CHAOS_DATABASE_H_
#define LONGSTREAM_TESTS_CHAOS_DATABASE_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/chaos/options.h"
#include "tests/processes/postgres_server.h"

namespace longstream::chaos {

// Used by the thread that has made it: PostgreSQL ends with that thread.
class Database {
 public:
  explicit Database(bool has_standby);

  std::vector<int> ports() const;
  // The URL of the database, for a client whose connections to the servers lead through `ports`.
  std::string Url(const std::vector<int>& ports) const;

  // Stops the server that serves, immediately (as a crash) or not, and starts it again after a
  // while.
  void Restart(bool immediately, milliseconds down);
  // The primary ends for good, and the standby takes over.
  void FailOver();

 private:
  PostgresServer primary_;
  std::unique_ptr<PostgresServer> standby_;
  PostgresServer* serving_ = &primary_;
  std::string name_;
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_DATABASE_H_
