// The leases are locked first. Then the time is asked for, when there is nothing left to wait for.
#include "service/sessions/store/sql/leases.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

constexpr const char* kLockLeases =
    "SELECT 1 FROM leases WHERE holder IN (?1, ?2) ORDER BY replica /*FOR SHARE*/";
constexpr const char* kLockFleet = "SELECT 1 FROM fleet /*FOR SHARE*/";
constexpr const char* kReadLeases =
    "SELECT " LONGSTREAM_LEASE_HOLDS("?1") ", " LONGSTREAM_LEASE_HOLDS("?2") ", "
    LONGSTREAM_CLAIMS_ALLOWED;
constexpr const char* kWhat = "look at the leases of replicas";

absl::StatusOr<StatementUse> UseFor(Database& database, const char* sql, std::string_view owner,
                                    std::string_view taker) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (!select.ok()) return select;
  (*select)->BindText(0, owner);
  (*select)->BindText(1, taker);
  return select;
}

// Waits for the locks that the query takes.
absl::Status Lock(Database& database, Statement& select) {
  Stepped code = Stepped::kRow;
  while (code == Stepped::kRow) code = select.Step();
  return code == Stepped::kDone ? absl::OkStatus() : database.Error(kWhat);
}

absl::Status NotAllowed(const SessionRow& session, std::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("store: session ", session.key.id.ToString(), ": ",
                   absl::string_view(why.data(), why.size())));
}

}  // namespace

absl::Status CheckLeases(Database& database, const SessionRow& session, const ChangeOwner& change) {
  if (change.condition == OwnerCondition::kNone) return absl::OkStatus();
  const absl::StatusOr<bool> has_leases = database.HasTable("leases");
  if (!has_leases.ok()) return has_leases.status();
  if (!*has_leases) {
    return absl::FailedPreconditionError("store: a store in a directory has no fleet");
  }
  absl::StatusOr<StatementUse> leases = UseFor(database, kLockLeases, session.owner, change.owner);
  if (!leases.ok()) return leases.status();
  absl::StatusOr<StatementUse> fleet = database.Use(kLockFleet);
  if (!fleet.ok()) return fleet.status();
  absl::StatusOr<StatementUse> read = UseFor(database, kReadLeases, session.owner, change.owner);
  if (!read.ok()) return read.status();
  // All three are sent at once. The server executes one after the other, so the third one asks for
  // the time when the leases are locked.
  for (const auto* query : {&leases, &fleet, &read}) (**query)->Announce();
  if (absl::Status status = Lock(database, **leases); !status.ok()) return status;
  if (absl::Status status = Lock(database, **fleet); !status.ok()) return status;
  if ((*read)->Step() != Stepped::kRow) return database.Error(kWhat);
  const bool owner_lives = (*read)->Int(0) != 0, taker_lives = (*read)->Int(1) != 0;
  const bool claims_allowed = (*read)->Int(2) != 0;
  if (!taker_lives) {
    return NotAllowed(session, absl::StrCat("the lease of ", change.owner, " is over"));
  }
  if (change.condition == OwnerCondition::kTransfer) return absl::OkStatus();
  if (owner_lives) {
    return NotAllowed(session,
                      absl::StrCat("the lease of its owner ", session.owner, " is not over"));
  }
  if (!claims_allowed) {
    return NotAllowed(session, "the database was started again, so no claims are allowed yet");
  }
  return absl::OkStatus();
}

}  // namespace longstream::store
