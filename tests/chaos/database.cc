// Stops and starts PostgreSQL.
#include "tests/chaos/database.h"

#include <thread>

namespace longstream::chaos {

// Replicas that are killed and started again leave connections behind for a moment.
Database::Database(bool has_standby)
    : primary_({"max_connections=200", "autovacuum=on"}), name_(primary_.NewDatabase()) {
  if (has_standby) standby_ = PostgresServer::StandbyOf(primary_);
}

std::vector<int> Database::ports() const {
  std::vector<int> ports = {primary_.port()};
  if (standby_ != nullptr) ports.push_back(standby_->port());
  return ports;
}

std::string Database::Url(const std::vector<int>& ports) const {
  std::string hosts;
  for (const int port : ports) {
    hosts += (hosts.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(port));
  }
  return std::string("postgresql://longstream:") + PostgresServer::kPassword + "@" + hosts + "/" +
         name_;
}

void Database::Restart(bool immediately, milliseconds down) {
  if (immediately) {
    serving_->Crash();
  } else {
    serving_->Stop();
  }
  std::this_thread::sleep_for(down);
  serving_->Start();
}

void Database::FailOver() {
  primary_.Crash();
  standby_->Promote();
  serving_ = standby_.get();
}

}  // namespace longstream::chaos
