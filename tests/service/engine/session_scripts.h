// Random sessions, to be performed on two engines that must give the same.
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
  size_t cancel_after = 0;  // tokens read; 0: it is left to end
  bool fork_before = false;
};
using Script = std::vector<Act>;

struct ScriptLengths {
  size_t num_scripts = 100;
  uint64_t longest_prompt = 300;  // bytes; most have a tenth of it at most
  uint64_t max_tokens = 60;
  size_t num_stops = 2;  // tokens, and strings, of a turn that is to stop at any
};

// Two to five turns a session, of all kinds that generate or append: sampled and greedy, with
// penalties, stop rules, log-probabilities; some cancelled, some after a fork.
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

// What each act gave, all that a caller may see of it but times; of a cancelled turn that is where
// it has left its session. `index` is one of its own for each script that an engine performs.
std::vector<std::string> Perform(TestEngine& engine, const Script& script, uint64_t index);

// Performs scripts one after the other with one step in flight, and six at once, of which four may
// be in a step, with two: expects the same of each.
void ExpectSameWithTwoInFlight(const TestModel& model, const ScriptLengths& lengths);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_SESSION_SCRIPTS_H_
