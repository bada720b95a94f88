// A replica of tests: the state machine with a driver around it that holds copies of sessions.
#ifndef LONGSTREAM_TESTS_FLEET_TEST_REPLICA_H_
#define LONGSTREAM_TESTS_FLEET_TEST_REPLICA_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "service/sessions/fleet/ownership.h"
#include "tests/fleet/model_store.h"

namespace longstream::fleet {

// An action that a replica asks of the world around it.
struct Effect {
  Action action;
  // Of kCommit: the result; of kChange: the call that asked for it; of SendCaches: the copy.
  Content content = 0;
};
using Effects = std::vector<Effect>;

// Copyable.
class TestReplica {
 public:
  TestReplica(const ReplicaName& name, const OwnershipOptions& options) : machine_(name, options) {}

  // Handles an event, and runs the actions that only concern copies. `store`: where sessions are
  // restored from, and who is told of acknowledgements and errors.
  Effects Handle(const Event& event, ModelStore* store);
  // The copy that a peer has streamed with Given or Offer. Nothing if it is not awaited.
  Effects HandleCaches(const ReplicaName& from, const SendCaches& sent, Content content,
                       ModelStore* store);
  // A session that this replica has made.
  Effects HandleOpened(const SessionKey& key, ModelStore* store);

  // The driver has evicted the copy.
  void Evict(const SessionKey& key) { copies_.erase(key); }

  const Ownership& machine() const { return machine_; }
  std::vector<SessionKey> Copies() const;
  void AppendBytes(std::string* bytes) const;

 private:
  struct Copy {
    Content content = 0;
    std::optional<Content> ran{};  // with the turn that has run, or the change
  };
  struct Awaited {
    Number operation = 0;
    ReplicaName from;
    Number request = 0;
  };

  Content ContentOf(const Transaction& transaction);
  void Run(const RunTurn& run, ModelStore* store);
  void Advance(const SessionKey& key);

  Ownership machine_;
  std::map<SessionKey, Copy> copies_;
  std::map<SessionKey, Awaited> awaited_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_TEST_REPLICA_H_
