// A session's turns, and their tokens in an undisturbed run.
#ifndef LONGSTREAM_TESTS_FAULTS_SCRIPTED_TURN_H_
#define LONGSTREAM_TESTS_FAULTS_SCRIPTED_TURN_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/connection.h"

namespace longstream {

// The numbers of tokens and turns that were compared, and of those that were wrong.
struct FaultCounts {
  uint64_t tokens = 0;
  uint64_t different = 0;
  uint64_t turns = 0;  // acknowledged
  uint64_t missing = 0;
  uint64_t twice = 0;

  void Add(const FaultCounts& other) {
    tokens += other.tokens;
    different += other.different;
    turns += other.turns;
    missing += other.missing;
    twice += other.twice;
  }
  std::string ToString() const {
    return std::to_string(tokens) + " tokens, " + std::to_string(different) + " different; " +
           std::to_string(turns) + " acknowledged turns, " + std::to_string(missing) +
           " missing, " + std::to_string(twice) + " committed twice";
  }
};

// One turn: a request without ids, and the tokens that it must give.
struct ScriptedTurn {
  v1::GenerateRequest request;
  std::vector<int32_t> tokens;
};

inline v1::GenerateRequest RandomTurn(const std::string& text, uint32_t max_tokens, uint64_t seed) {
  v1::GenerateRequest request;
  request.mutable_input()->set_text(text);
  request.set_max_tokens(max_tokens);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(1.0f);
  request.mutable_sampling()->set_presence_penalty(0.5f);
  request.mutable_sampling()->set_seed(seed);
  return request;
}

// Runs the turns in a new session without faults, and notes their tokens. Throws std::runtime_error
// if a turn has too few.
inline void RunUndisturbed(client::Connection& connection, const std::string& model,
                           std::vector<ScriptedTurn>* turns) {
  v1::OpenSessionRequest open;
  open.set_model(model);
  open.set_durability(v1::DURABILITY_MEMORY);  // leaves nothing to the threads of the store
  const std::string id = connection.Open(open).session_id();
  for (ScriptedTurn& turn : *turns) {
    turn.request.set_session_id(id);
    turn.tokens = connection.Generate(turn.request).token_ids;
    if (turn.tokens.size() != turn.request.max_tokens()) {
      throw std::runtime_error("an undisturbed turn has " + std::to_string(turn.tokens.size()) +
                               " tokens");
    }
  }
  connection.Close(id);
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_FAULTS_SCRIPTED_TURN_H_
