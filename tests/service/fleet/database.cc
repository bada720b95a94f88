#include "tests/service/fleet/database.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"

namespace longstream::fleet {
namespace {

struct ModelChange {
  Transaction transaction;
  Content content = 0;
};

uint64_t NumberIn(const std::string& text) {
  uint64_t number = 0;
  (void)absl::SimpleAtoi(text, &number);
  return number;
}

// Turns of these tests have ids below 2^63, which are their numbers too.
ModelChange Read(const store::Change& change) {
  ModelChange read;
  Transaction& made = read.transaction;
  if (const auto* start = std::get_if<store::StartTurn>(&change)) {
    made = {TransactionKind::kStart, start->fence, start->turn.id, {}};
  } else if (const auto* commit = std::get_if<store::CommitTurn>(&change)) {
    made = {TransactionKind::kCommit, commit->fence, {0, static_cast<uint64_t>(commit->turn)}, {}};
    read.content = NumberIn(commit->result);
  } else if (const auto* abandon = std::get_if<store::AbandonTurn>(&change)) {
    made = {
        TransactionKind::kAbandon, abandon->fence, {0, static_cast<uint64_t>(abandon->turn)}, {}};
  } else if (const auto* move = std::get_if<store::MoveHead>(&change)) {
    made = {TransactionKind::kChange, move->fence, {}, {}};
    read.content = NumberIn(*move->properties);
  } else if (const auto* owner = std::get_if<store::ChangeOwner>(&change)) {
    made = {owner->condition == store::OwnerCondition::kClaim ? TransactionKind::kClaim
                                                              : TransactionKind::kTransfer,
            owner->fence,
            {},
            owner->owner};
  } else if (const auto* close = std::get_if<store::CloseSession>(&change)) {
    made = {TransactionKind::kClose, *close->fence, {}, {}};
  }
  return read;
}

absl::Status StatusOf(Outcome outcome, TransactionKind kind) {
  switch (outcome) {
    case Outcome::kMade:
      return absl::OkStatus();
    case Outcome::kFenced:
      return absl::AbortedError("another epoch or version");
    case Outcome::kTurnExists:
      return kind == TransactionKind::kStart ? absl::AlreadyExistsError("the turn is there")
                                             : absl::FailedPreconditionError("not on the head");
    case Outcome::kNotAllowed:
      return absl::PermissionDeniedError("a lease");
    case Outcome::kFull:
      return absl::ResourceExhaustedError("full");
    case Outcome::kRefused:
      return absl::InvalidArgumentError("wrong");
    case Outcome::kUnavailable:
      return absl::UnavailableError("the database is away");
    case Outcome::kUnknown:
      break;
  }
  return absl::UnknownError("the connection was lost");
}

}  // namespace

bool Dice::Chance(double probability) {
  const absl::MutexLock lock(&mutex_);
  return std::uniform_real_distribution<double>(0, 1)(engine_) < probability;
}

uint64_t Dice::Draw(uint64_t most) {
  const absl::MutexLock lock(&mutex_);
  return engine_() % most;
}

absl::StatusOr<store::Applied> Database::Apply(const store::Change& change, const ReplicaName& by) {
  const ModelChange read = Read(change);
  const Transaction& made = read.transaction;
  if (faulty_ && dice_.Chance(0.03)) return StatusOf(Outcome::kUnavailable, made.kind);
  if (faulty_ && dice_.Chance(0.02)) return StatusOf(Outcome::kFull, made.kind);
  const auto apply = [this, read, by] {
    const absl::MutexLock lock(&mutex_);
    return model_.Apply(read.transaction, by, read.content, Now());
  };
  if (faulty_ && dice_.Chance(0.06)) {
    const uint64_t fate = dice_.Draw(3);
    if (fate == 0) apply();
    if (fate == 1) {
      timers_.Set(MonotonicTime::Now() + dice_.Time(absl::Milliseconds(300)), [apply] { apply(); });
    }
    return StatusOf(Outcome::kUnknown, made.kind);
  }
  const Outcome outcome = apply();
  if (outcome != Outcome::kMade) return StatusOf(outcome, made.kind);
  const bool owner_changes =
      made.kind == TransactionKind::kClaim || made.kind == TransactionKind::kTransfer;
  return store::Applied{.epoch = made.fence.epoch + (owner_changes ? 1 : 0),
                        .version = made.fence.version + 1,
                        .turn = static_cast<store::TurnNumber>(made.turn.low)};
}

ReplicaName Database::Join(const std::string& replica_id) {
  const absl::MutexLock lock(&mutex_);
  return replica_id + "/" + std::to_string(++incarnations_[replica_id]);
}

absl::StatusOr<RenewedLease> Database::Renew(const Replica& self) {
  const absl::MutexLock lock(&mutex_);
  const Micros now = Now();
  const std::optional<LeaseRenewed> renewed = model_.Renew(self.name, now);
  if (!renewed.has_value()) return absl::FailedPreconditionError("a later incarnation");
  replicas_[self.name] = self;
  RenewedLease lease{.generation = renewed->generation, .lapsed = renewed->lapsed, .others = {}};
  for (const ReplicaName& peer : model_.Peers(self.name, now)) {
    lease.others.push_back(replicas_[peer]);
  }
  return lease;
}

void Database::Release(const ReplicaName& self) {
  const absl::MutexLock lock(&mutex_);
  model_.Release(self);
}

absl::StatusOr<OwnedRow> Database::ReadRow(const SessionKey& session,
                                           const std::optional<TurnId>& turn) {
  if (faulty_ && dice_.Chance(0.03)) return absl::UnavailableError("the database is away");
  const absl::MutexLock lock(&mutex_);
  return model_.Read(session, turn, Now());
}

absl::StatusOr<RenewedLease> DatabaseLink::Renew(const Replica& self, absl::Duration /*ttl*/) {
  if (!renews_) return absl::UnavailableError("the database is away");
  return database_.Renew(self);
}

absl::Status DatabaseLink::Release(const ReplicaName& self) {
  database_.Release(self);
  return absl::OkStatus();
}

absl::StatusOr<OwnedRow> DatabaseLink::ReadRow(const SessionKey& session,
                                               const std::optional<TurnId>& turn) {
  absl::SleepFor(dice_.Time(absl::Milliseconds(1)));
  return database_.ReadRow(session, turn);
}

std::vector<absl::StatusOr<store::Applied>> DatabaseLink::Apply(
    absl::Span<const store::Change> changes) {
  absl::SleepFor(dice_.Time(absl::Milliseconds(2)));
  std::vector<absl::StatusOr<store::Applied>> results;
  for (const store::Change& change : changes) results.push_back(database_.Apply(change, name_));
  return results;
}

}  // namespace longstream::fleet
