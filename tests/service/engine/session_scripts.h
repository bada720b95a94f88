// Random sessions, which run on two engines that must give the same results.
#ifndef LONGSTREAM_TESTS_SERVICE_ENGINE_SESSION_SCRIPTS_H_
#define LONGSTREAM_TESTS_SERVICE_ENGINE_SESSION_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/service/engine/engine_fixture.h"

namespace longstream {

// A turn of a session's script.
struct Act {
  SessionTurnRequest request;
  size_t cancel_after = 0;  // tokens to read before the cancel; 0: the turn runs to its end
  bool fork_before = false;
};
using Script = std::vector<Act>;

struct ScriptLengths {
  size_t num_scripts = 100;
  uint64_t longest_prompt = 300;  // in bytes; most prompts have at most a tenth of this length
  uint64_t max_tokens = 60;
  size_t num_stops = 2;  // stop tokens and stop strings of a turn that has stop rules
};

// Two to five turns per session, of all kinds that generate or append. They are sampled and greedy,
// with penalties, stop rules and log-probabilities. Some are cancelled, and some begin with a fork.
class Scripts {
 public:
  Scripts(uint64_t seed, const ScriptLengths& lengths) : random_(seed), lengths_(lengths) {}

  Script Next();

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  std::string Text(uint64_t longest);
  Act NextAct();

  std::mt19937_64 random_;
  const ScriptLengths lengths_;
};

// Returns the results of each act, without times. The result of an act is all that its caller sees;
// the result of a cancelled act is the session's position after it. An engine must run each script
// with an `index` of its own.
std::vector<std::string> Perform(TestEngine& engine, const Script& script, uint64_t index);

// Runs all scripts one after the other on an engine with one step in flight. Then runs six at a
// time on an engine with two steps in flight and four places in the batch, which change hands after
// every step. Expects the same results.
void ExpectSameWithTwoInFlight(const TestModel& model, const ScriptLengths& lengths);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_SESSION_SCRIPTS_H_
