// A database in memory: the reference for service/sessions/fleet/transactions.h. Time is whatever
// the caller says.
#ifndef LONGSTREAM_TESTS_FLEET_MODEL_STORE_H_
#define LONGSTREAM_TESTS_FLEET_MODEL_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/sessions/fleet/events.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

using Micros = int64_t;

// SplitMix64's finaliser: each bit of the result depends on all bits.
uint64_t Mix(uint64_t bits);

// The content of a session as a hash, turn by turn.
using Content = uint64_t;
Content After(Content before, const TurnId& turn);
// The content after a change that is no turn.
Content AfterChange(Content before, CallId change);

// The name of a replica: "2/5" is the fifth incarnation of the replica 2.
ReplicaName NameOf(int replica, int incarnation);
int ReplicaOf(const ReplicaName& name);
int IncarnationOf(const ReplicaName& name);

// Checks the history of the store while it is made. The first error stays.
class ModelStore {
 public:
  explicit ModelStore(Micros lease_ttl) : lease_ttl_(lease_ttl) {}

  // Adds a session.
  void Open(const SessionKey& key, const ReplicaName& owner);

  // Absent: a later incarnation has the lease.
  std::optional<LeaseRenewed> Renew(const ReplicaName& replica, Micros now);
  void Release(const ReplicaName& replica);
  bool Lives(const ReplicaName& replica, Micros now) const;
  // The replicas whose leases are not over, but for `self`.
  std::vector<ReplicaName> Peers(const ReplicaName& self, Micros now) const;

  OwnedRow Read(const SessionKey& key, const std::optional<TurnId>& turn, Micros now) const;
  // `by`: the replica that asked for it. `content`: the result of a kCommit, the call of a kChange.
  Outcome Apply(const Transaction& transaction, const ReplicaName& by, Content content, Micros now);
  // The database was started anew, or another server has taken its place.
  void Restart(Micros now);
  int64_t generation() const { return generation_; }

  // The history, as a replica without a copy reads it.
  Content ContentOf(const SessionKey& key) const;
  bool IsOpen(const SessionKey& key) const;
  const ReplicaName& OwnerOf(const SessionKey& key) const;
  bool HasTurn(const SessionKey& key, const TurnId& turn) const;
  bool IsCommitted(const SessionKey& key, const TurnId& turn) const;

  // A call has been told that the turn is committed, or sees its beginning.
  void Acknowledged(const SessionKey& key, const TurnId& turn);
  void ChangeAcknowledged(const SessionKey& key, CallId change);
  // A call has been told that the turn was abandoned.
  void Abandoned(const SessionKey& key, const TurnId& turn);
  void Shown(const SessionKey& key, const TurnId& turn);
  // An error that somebody else has found.
  void Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
  }

  const std::string& error() const { return error_; }
  int num_commits() const { return num_commits_; }
  int num_claims() const { return num_claims_; }
  int num_transfers() const { return num_transfers_; }
  int num_fenced() const { return num_fenced_; }

  void AppendBytes(std::string* bytes) const;

 private:
  struct Turn {
    TurnState state = TurnState::kStarted;
    Content parent = 0;  // the head when it started
  };
  struct Session {
    bool open = true;
    ReplicaName owner;
    int64_t epoch = 1;
    int64_t version = 1;
    Content content = 0;  // at the head
    std::map<TurnId, Turn> turns;
    std::set<CallId> changes;
    std::set<std::pair<int64_t, int64_t>> used;  // epochs and versions that a change has expected
  };
  struct Lease {
    int incarnation = 0;
    Micros end = 0;
  };

  Outcome Take(Session& session, const Transaction& transaction, Micros now);
  void CheckTurn(const Session& session, const Transaction& transaction, const ReplicaName& by);

  const Micros lease_ttl_;
  std::map<SessionKey, Session> sessions_;
  std::map<int, Lease> leases_;
  int64_t generation_ = 1;
  Micros claims_from_ = 0;
  std::string error_;
  int num_commits_ = 0;
  int num_claims_ = 0;
  int num_transfers_ = 0;
  int num_fenced_ = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_MODEL_STORE_H_
