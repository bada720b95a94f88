// Faults that are made in the fleet while clients use it.
#ifndef LONGSTREAM_TESTS_CHAOS_DISTURBANCE_H_
#define LONGSTREAM_TESTS_CHAOS_DISTURBANCE_H_

#include <random>
#include <string>

#include "tests/chaos/fleet.h"
#include "tests/chaos/options.h"

namespace longstream::chaos {

// Disturbs a fleet for a time: which faults come, and when, follows from the seed. Prints each.
class Disturbance {
 public:
  Disturbance(const Options& options, Fleet* fleet);

  // A fault every few seconds, and restarts of the database.
  void Faults();
  // Ends each replica with SIGTERM, and waits until it serves again, one after the other.
  void RollingRestart();

  int database_restarts() const { return database_restarts_; }
  int cuts() const { return cuts_; }

 private:
  void OneFault();
  // Cuts connections at one of the places where the fleet has some.
  void Cut(Replica* replica);
  void DisturbDatabase();
  milliseconds Between(int least, int most);
  void Say(const std::string& event) const;

  const Options& options_;
  Fleet* const fleet_;
  const Clock::time_point begin_ = Clock::now();
  std::mt19937_64 random_;
  int database_events_ = 0;
  int database_restarts_ = 0;
  int cuts_ = 0;
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_DISTURBANCE_H_
