// The check that a disturbed run has the tokens of an undisturbed one.
#ifndef LONGSTREAM_TESTS_FAULTS_TURN_SCRIPT_H_
#define LONGSTREAM_TESTS_FAULTS_TURN_SCRIPT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/faults/kept_server.h"
#include "tests/faults/scripted_turn.h"

namespace longstream {

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
