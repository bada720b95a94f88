// A session's turns, their tokens in an undisturbed run, and the check that a disturbed run has the
// same.
#ifndef LONGSTREAM_TESTS_FAULTS_TURN_SCRIPT_H_
#define LONGSTREAM_TESTS_FAULTS_TURN_SCRIPT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/faults/kept_server.h"

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

// Runs the turns in a new session without faults, and notes their tokens.
inline void RunUndisturbed(client::Connection& connection, const std::string& model,
                           std::vector<ScriptedTurn>* turns) {
  v1::OpenSessionRequest open;
  open.set_model(model);
  open.set_durability(v1::DURABILITY_MEMORY);  // leaves nothing to the threads of the store
  const std::string id = connection.Open(open).session_id();
  for (ScriptedTurn& turn : *turns) {
    turn.request.set_session_id(id);
    turn.tokens = connection.Generate(turn.request).token_ids;
    ASSERT_EQ(turn.tokens.size(), turn.request.max_tokens());
  }
  connection.Close(id);
}

// A session of a client whose server may end at any time.
class PersistentSession {
 public:
  PersistentSession(client::Connection* connection, const std::string& model)
      : connection_(connection), id_(client::RandomId()) {
    Persist([&] { return connection_->Open(model, id_); });
  }
  // A fork of a session at its present end.
  explicit PersistentSession(const PersistentSession& source, client::Connection* connection)
      : connection_(connection), id_(client::RandomId()) {
    Persist([&] { return connection_->Fork(source.id_, id_); });
  }
  PersistentSession(PersistentSession&&) = default;

  const std::string& id() const { return id_; }
  FaultCounts& counts() { return counts_; }

  // Runs a turn to its end, and compares its tokens. Returns its request.
  v1::GenerateRequest Run(const ScriptedTurn& turn) {
    v1::GenerateRequest request = turn.request;
    request.set_session_id(id_);
    request.set_turn_id(client::RandomId());
    const client::Generation generation = Persist([&] { return connection_->Generate(request); });
    Compare(generation.token_ids, turn.tokens);
    acknowledged_.push_back(request.turn_id());
    ++counts_.turns;
    return request;
  }

  // Compares the turns that the server knows with those that it has acknowledged.
  void CheckTurns() {
    const std::vector<v1::Turn> turns = Persist([&] { return connection_->Turns(id_); });
    for (const std::string& id : acknowledged_) {
      uint64_t committed = 0;
      for (const v1::Turn& turn : turns) {
        if (turn.turn_id() == id && turn.state() == v1::TURN_STATE_COMMITTED) ++committed;
      }
      if (committed == 0) ++counts_.missing;
      if (committed > 1) ++counts_.twice;
    }
    // A turn that was committed and not acknowledged would also be one too many.
    EXPECT_EQ(turns.size(), acknowledged_.size()) << "session " << id_;
  }

  // Closes the session. A server that ended before its answer may have closed it already.
  void Close() {
    Persist([&] {
      try {
        connection_->Close(id_);
      } catch (const client::CallError& error) {
        if (error.status().error_code() != grpc::StatusCode::NOT_FOUND) throw;
      }
    });
  }

 private:
  void Compare(const std::vector<int32_t>& found, const std::vector<int32_t>& expected) {
    EXPECT_EQ(found, expected) << "session " << id_;
    counts_.tokens += expected.size();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (i >= found.size() || found[i] != expected[i]) ++counts_.different;
    }
  }

  client::Connection* connection_;
  std::string id_;
  std::vector<std::string> acknowledged_;  // turn ids
  FaultCounts counts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_FAULTS_TURN_SCRIPT_H_
