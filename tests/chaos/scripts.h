// The turns of conversations, and their tokens in a run that nothing disturbs.
#ifndef LONGSTREAM_TESTS_CHAOS_SCRIPTS_H_
#define LONGSTREAM_TESTS_CHAOS_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/faults/scripted_turn.h"

namespace longstream::chaos {

// The turns of a conversation, and the tokens of an undisturbed run.
struct Script {
  std::string model;
  std::vector<ScriptedTurn> turns;
};

// A script without tokens. `max_tokens`: of each turn. The seed 0 takes the most probable tokens.
Script MakeScript(const std::string& model, uint64_t seed, const std::vector<uint32_t>& max_tokens);

// Runs all scripts at the same time on one server of its own, and notes their tokens. `server`:
// longstream-server; `models`: the directory of the demo models. Throws std::runtime_error and
// client::CallError.
void RunOnOneServer(const std::string& server, const std::string& models,
                    std::vector<Script>* scripts);

// Runs a function for each number below `count`, `at_once` at the same time. Throws an error of the
// function.
void ForEach(size_t count, size_t at_once, const std::function<void(size_t)>& function);

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_SCRIPTS_H_
