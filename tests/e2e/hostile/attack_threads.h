// Threads that attack the server at random, from a seed, at a limited rate.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_THREADS_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_THREADS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/hostile/attack.h"

namespace longstream {

struct AttackCounts {
  std::map<std::string, int> attacks;  // by the name of the attack
  uint64_t sent = 0;                   // bytes
  double processor_seconds = 0;        // of the attacking threads
  size_t requests = 0;                 // pairs of a method and a way to mangle its request
  int failures = 0;                    // attacks that could not connect

  int total() const;
};

class AttackThreads {
 public:
  // `rate`: attacks a second, of all threads together. Makes only attacks whose names contain
  // `only`. `target` must outlive this object. Throws std::runtime_error if there is no such
  // attack.
  AttackThreads(const Target& target, uint32_t seed, double rate, const std::string& only);

  // Attacks until then, then ends all connections. The threads run at the lowest priority, so that
  // they leave the processors to the server where both want them.
  void Run(std::chrono::steady_clock::time_point until);

  // Each thread makes every attack so many times, as fast as it can, then ends all connections.
  // This brings the server to the largest load that it will see.
  void RunEach(int times);

  const AttackCounts& counts() const { return counts_; }
  // Names of the attacks that were not made.
  std::vector<std::string> Missing() const;

 private:
  struct Thread {
    Attacker attacker;
    AttackCounts counts;
  };

  void RunUntil(Thread& thread, std::chrono::steady_clock::time_point until) const;
  static void Make(const Attack& attack, Thread& thread);
  // Calls body(thread) on every thread and adds up their counts.
  void OnAllThreads(const std::function<void(Thread& thread)>& body);
  const Attack& Choose(std::mt19937& random) const;

  std::vector<Attack> attacks_;
  const std::chrono::nanoseconds interval_;  // between two attacks of a thread
  std::deque<Thread> threads_;
  AttackCounts counts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_THREADS_H_
