// A client with one session, which it uses in turns while the fleet is disturbed.
#ifndef LONGSTREAM_TESTS_CHAOS_CONVERSATION_H_
#define LONGSTREAM_TESTS_CHAOS_CONVERSATION_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "client/channel.h"
#include "client/connection.h"
#include "tests/chaos/options.h"
#include "tests/chaos/scripts.h"
#include "tests/faults/scripted_turn.h"

namespace longstream::chaos {

// The part of the run that is going on.
enum class Phase { kBefore, kDuring, kAfter };

// When a turn was asked for, and how long its client waited, with all repetitions.
struct TurnTime {
  std::chrono::system_clock::time_point at;
  Phase phase = Phase::kBefore;  // in which the first token came
  double first_token_seconds = 0;
  double seconds = 0;
  size_t tokens = 0;
};

// The events that a client has seen.
struct Experience {
  FaultCounts counts;
  uint64_t unexpected = 0;  // turns that the fleet has, and the client has not got
  uint64_t sessions = 0;
  uint64_t lost = 0;     // of them
  uint64_t resumed = 0;  // losses of a turn that client::Connection went on with by itself
  std::map<std::string, uint64_t> resumed_after;  // the same, by the errors
  std::map<std::string, uint64_t> recomputed;     // tokens of histories, by the server's reason
  std::map<std::string, uint64_t> repeated;       // calls that were made again, by their errors
  std::vector<std::string> errors;                // that no retry may end
  std::vector<TurnTime> turn_times;               // of the acknowledged turns
  // Seconds from a message with tokens to the next one of the turn, by the Phase in which it came.
  std::array<std::vector<double>, 3> gaps;

  void Add(const Experience& other);
  bool good() const;
  // Prints the errors, and what was lost.
  void PrintLosses() const;
};

// Whoever has the conversation calls its functions one after the other.
class Conversation {
 public:
  Conversation(const Script* script, const std::string& address, uint64_t seed,
               const client::ChannelSecurity& security = {});

  // Opens the session and runs its turns, with pauses of `pause` seconds on average, until
  // `stopping` or the end of the script. A turn that has begun is read to its end.
  void Run(double pause, const std::atomic<bool>& stopping, const std::atomic<Phase>& phase);
  // Runs one turn, before the first one opens the session. Returns whether there are more of them.
  bool RunNext(const std::atomic<Phase>& phase);
  // Runs one more turn, and compares the turns of the fleet with those that it has acknowledged.
  void Check();

  bool ended() const { return ended_; }
  const Experience& experience() const { return experience_; }
  // For a person who looks at a run that hangs. Thread-safe.
  std::string ToString() const;

 private:
  // Makes a call until it is answered: the answers of a fleet under faults may be errors that say
  // "again". Throws the others.
  template <typename Function>
  auto UntilAnswered(const Function& call) -> decltype(call());
  // The last turn of the script is for Check.
  bool HasMore() const { return next_ + 1 < script_->turns.size(); }
  void Open();
  void RunTurn(const std::atomic<Phase>& phase);
  void CheckTurns();
  void HasFailed(const client::CallError& error);

  const Script* const script_;
  client::Connection connection_;
  const std::string id_;
  std::mt19937_64 random_;
  std::atomic<size_t> next_{0};  // of the script's turns
  std::atomic<bool> ended_{false};
  bool is_open_ = false;
  std::vector<std::string> acknowledged_;  // turn ids
  Experience experience_;
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_CONVERSATION_H_
