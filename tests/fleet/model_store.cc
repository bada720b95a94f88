#include "tests/fleet/model_store.h"

#include <charconv>

#include "service/sessions/fleet/mutations.h"

namespace longstream::fleet {

namespace {

int NumberIn(const ReplicaName& name, size_t begin, size_t end) {
  int number = -1;
  std::from_chars(name.data() + begin, name.data() + end, number);
  return number;
}

void Append(std::string* bytes, int64_t value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

uint64_t Mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

Content After(Content before, const TurnId& turn) {
  return Mix(before * 0x9E3779B97F4A7C15u + turn.low + 0x632BE59BD9B4E019u);
}

Content AfterChange(Content before, CallId change) { return ~After(before, {0, change}); }

ReplicaName NameOf(int replica, int incarnation) {
  return std::to_string(replica) + "/" + std::to_string(incarnation);
}

int ReplicaOf(const ReplicaName& name) { return NumberIn(name, 0, name.find('/')); }

int IncarnationOf(const ReplicaName& name) {
  return NumberIn(name, name.find('/') + 1, name.size());
}

void ModelStore::Open(const SessionKey& key, const ReplicaName& owner) {
  sessions_[key].owner = owner;
}

std::optional<LeaseRenewed> ModelStore::Renew(const ReplicaName& replica, Micros now) {
  Lease& lease = leases_[ReplicaOf(replica)];
  const int incarnation = IncarnationOf(replica);
  if (lease.incarnation > incarnation) return std::nullopt;
  const bool lapsed = lease.incarnation == incarnation && lease.end <= now;
  lease = {incarnation, now + lease_ttl_};
  return LeaseRenewed{.generation = generation_, .lapsed = lapsed};
}

void ModelStore::Release(const ReplicaName& replica) {
  Lease& lease = leases_[ReplicaOf(replica)];
  if (lease.incarnation == IncarnationOf(replica)) lease.end = 0;
}

bool ModelStore::Lives(const ReplicaName& replica, Micros now) const {
  const auto found = leases_.find(replica.empty() ? -1 : ReplicaOf(replica));
  return found != leases_.end() && found->second.incarnation == IncarnationOf(replica) &&
         found->second.end > now;
}

std::vector<ReplicaName> ModelStore::Peers(const ReplicaName& self, Micros now) const {
  std::vector<ReplicaName> peers;
  for (const auto& [replica, lease] : leases_) {
    if (replica != ReplicaOf(self) && lease.end > now) {
      peers.push_back(NameOf(replica, lease.incarnation));
    }
  }
  return peers;
}

OwnedRow ModelStore::Read(const SessionKey& key, const std::optional<TurnId>& turn,
                          Micros now) const {
  const auto found = sessions_.find(key);
  if (found == sessions_.end() || !found->second.open) return {};
  const Session& session = found->second;
  OwnedRow row{.open = true,
               .owner = session.owner,
               .epoch = session.epoch,
               .version = session.version,
               .turn = std::nullopt,
               .owner_lives = Lives(session.owner, now),
               .claims_allowed = now >= claims_from_ || Mutated(Mutation::kClaimAfterRestart)};
  if (turn.has_value()) {
    const auto found_turn = session.turns.find(*turn);
    if (found_turn != session.turns.end()) {
      const auto& [state, parent] = found_turn->second;
      const bool has_moved = state == TurnState::kStarted && parent != session.content;
      row.turn = has_moved ? TurnState::kAbandoned : state;
    }
  }
  return row;
}

// The transactions that change the owner.
Outcome ModelStore::Take(Session& session, const Transaction& transaction, Micros now) {
  const bool is_claim = transaction.kind == TransactionKind::kClaim;
  if (!Lives(transaction.owner, now)) return Outcome::kNotAllowed;
  const bool lease_holds = Lives(session.owner, now);
  const bool is_too_early = now < claims_from_;
  if (is_claim && lease_holds && !Mutated(Mutation::kClaimLiving)) return Outcome::kNotAllowed;
  if (is_claim && is_too_early && !Mutated(Mutation::kClaimAfterRestart)) {
    return Outcome::kNotAllowed;
  }
  if (is_claim && lease_holds) Fail("a claim took a session whose owner's lease held");
  if (is_claim && is_too_early) Fail("a claim was made within lease_ttl of a restart");
  ++(is_claim ? num_claims_ : num_transfers_);
  session.owner = transaction.owner;
  if (Mutated(Mutation::kNoEpochs)) return Outcome::kMade;
  ++session.epoch;
  ++session.version;
  return Outcome::kMade;
}

void ModelStore::CheckTurn(const Session& session, const Transaction& transaction,
                           const ReplicaName& by) {
  if (by != session.owner && transaction.kind != TransactionKind::kClose) {
    Fail("a replica changed a session of another one");
  }
}

Outcome ModelStore::Apply(const Transaction& transaction, const ReplicaName& by, Content content,
                          Micros now) {
  const auto found = sessions_.find(transaction.fence.key);
  if (found == sessions_.end() || !found->second.open) return Outcome::kFenced;
  Session& session = found->second;
  const std::pair<int64_t, int64_t> fence{transaction.fence.epoch, transaction.fence.version};
  const bool fits = fence == std::pair{session.epoch, session.version};
  if (!fits && !Mutated(Mutation::kNoFence)) {
    ++num_fenced_;
    return Outcome::kFenced;
  }
  const auto turn = session.turns.find(transaction.turn);
  switch (transaction.kind) {
    case TransactionKind::kClaim:
    case TransactionKind::kTransfer: {
      const Outcome outcome = Take(session, transaction, now);
      if (outcome != Outcome::kMade) return outcome;
      break;
    }
    case TransactionKind::kStart:
      if (turn != session.turns.end()) return Outcome::kTurnExists;
      session.turns[transaction.turn] = {TurnState::kStarted, session.content};
      CheckTurn(session, transaction, by);
      ++session.version;
      break;
    case TransactionKind::kCommit:
      if (turn == session.turns.end() || turn->second.state != TurnState::kStarted ||
          turn->second.parent != session.content) {
        return Outcome::kTurnExists;
      }
      CheckTurn(session, transaction, by);
      if (content != After(session.content, transaction.turn)) {
        Fail("a turn was computed from another history than that of the store");
      }
      turn->second.state = TurnState::kCommitted;
      session.content = content;
      ++session.version;
      ++num_commits_;
      break;
    case TransactionKind::kAbandon:
      if (turn == session.turns.end() || turn->second.state != TurnState::kStarted) {
        return Outcome::kRefused;
      }
      CheckTurn(session, transaction, by);
      turn->second.state = TurnState::kAbandoned;
      ++session.version;
      break;
    case TransactionKind::kChange:
      CheckTurn(session, transaction, by);
      session.content = AfterChange(session.content, content);
      session.changes.insert(content);
      ++session.version;
      break;
    case TransactionKind::kClose:
      session.open = false;
      break;
  }
  if (!session.used.insert(fence).second && !Mutated(Mutation::kNoEpochs)) {
    Fail("two changes were made at one epoch and version");
  }
  return Outcome::kMade;
}

void ModelStore::Restart(Micros now) {
  ++generation_;
  claims_from_ = now + lease_ttl_;
}

Content ModelStore::ContentOf(const SessionKey& key) const {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? 0 : found->second.content;
}

bool ModelStore::IsOpen(const SessionKey& key) const {
  const auto found = sessions_.find(key);
  return found != sessions_.end() && found->second.open;
}

const ReplicaName& ModelStore::OwnerOf(const SessionKey& key) const {
  return sessions_.at(key).owner;
}

bool ModelStore::HasTurn(const SessionKey& key, const TurnId& turn) const {
  return sessions_.at(key).turns.contains(turn);
}

bool ModelStore::IsCommitted(const SessionKey& key, const TurnId& turn) const {
  const Session& session = sessions_.at(key);
  const auto found = session.turns.find(turn);
  return found != session.turns.end() && found->second.state == TurnState::kCommitted;
}

void ModelStore::Acknowledged(const SessionKey& key, const TurnId& turn) {
  if (!IsCommitted(key, turn)) Fail("a turn was acknowledged that is not in the store");
}

void ModelStore::ChangeAcknowledged(const SessionKey& key, CallId change) {
  if (!sessions_.at(key).changes.contains(change)) {
    Fail("a change was acknowledged that is not in the store");
  }
}

void ModelStore::Abandoned(const SessionKey& key, const TurnId& turn) {
  const Session& session = sessions_.at(key);
  const auto found = session.turns.find(turn);
  const bool is_abandoned =
      found != session.turns.end() &&
      (found->second.state == TurnState::kAbandoned ||
       (found->second.state == TurnState::kStarted && found->second.parent != session.content));
  if (!is_abandoned) Fail("a turn was called abandoned that is not");
}

void ModelStore::Shown(const SessionKey& key, const TurnId& turn) {
  if (!HasTurn(key, turn)) Fail("a call saw a turn whose start is not in the store");
}

void ModelStore::AppendBytes(std::string* bytes) const {
  for (const auto& [key, session] : sessions_) {
    Append(bytes, session.open ? 1 : 0);
    bytes->append(session.owner).push_back('\n');
    Append(bytes, session.epoch);
    Append(bytes, session.version);
    Append(bytes, static_cast<int64_t>(session.content));
    for (const auto& [id, turn] : session.turns) {
      Append(bytes, static_cast<int64_t>(id.low));
      Append(bytes, static_cast<int64_t>(turn.state));
      Append(bytes, static_cast<int64_t>(turn.parent));
    }
    for (const CallId change : session.changes) Append(bytes, static_cast<int64_t>(change));
  }
  for (const auto& [replica, lease] : leases_) {
    Append(bytes, lease.incarnation);
    Append(bytes, lease.end > 0 ? 1 : 0);
  }
  Append(bytes, generation_);
  Append(bytes, claims_from_);
}

}  // namespace longstream::fleet
