// Each check is a query, and a function that refuses the rows that are faults.
#include "service/sessions/store/sql/check_log.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/schema.h"
#include "service/sessions/store/sql/segment_rows.h"

namespace longstream::store {
namespace {

struct RowCheck {
  const char* sql;
  absl::Status (*read)(const Statement& row);
};

absl::Status OfHead(const Statement& row) {
  return absl::DataLossError(absl::StrCat("store: the head of session number ", row.Int(0),
                                          " is turn ", row.Int(1), ", which is not committed"));
}

absl::Status OfParent(const Statement& row) {
  return absl::DataLossError(absl::StrCat("store: the parent of turn ", row.Int(0), " is turn ",
                                          row.Int(1), ", which is not committed or is not older"));
}

absl::Status OfSnapshot(const Statement& row) {
  return absl::DataLossError(
      absl::StrCat("store: a snapshot of turn ", row.Int(0), " names a segment that is missing"));
}

absl::Status OfSpan(const Statement& row) {
  return absl::DataLossError(absl::StrCat("store: the span before segment ",
                                          absl::BytesToHexString(row.Bytes(0)), " is missing"));
}

absl::Status OfTurnSum(const Statement& row) {
  return absl::DataLossError(absl::StrCat("store: the sum of the bytes up to turn ", row.Int(0),
                                          " is ", row.Int(1), ", not ", row.Int(2)));
}

absl::Status OfLease(const Statement& row) {
  return absl::DataLossError(
      absl::StrCat("store: the lease of replica '", absl::CHexEscape(row.Bytes(0)),
                   "' belongs to another replica, '", absl::CHexEscape(row.Bytes(1)), "'"));
}

absl::Status OfFleet(const Statement& row) {
  return absl::DataLossError(
      absl::StrCat("store: the table fleet has ", row.Int(0), " rows, not one"));
}

absl::Status OfIncarnation(const Statement& row) {
  return absl::DataLossError(absl::StrCat("store: the lease of replica '",
                                          absl::CHexEscape(row.Bytes(0)), "' has incarnation ",
                                          row.Int(1), ", which has not been drawn yet"));
}

constexpr RowCheck kChecks[] = {
    {"SELECT " LONGSTREAM_SESSION_COLUMNS " FROM sessions",
     [](const Statement& row) { return ReadSession(row).status(); }},
    {"SELECT " LONGSTREAM_TURN_COLUMNS " FROM turns t JOIN sessions s ON s.number = t.session",
     [](const Statement& row) { return ReadTurn(row).status(); }},
    {"SELECT s.number, s.head FROM sessions s JOIN turns t ON t.number = s.head"
     " WHERE t.state != 2",
     OfHead},
    {"SELECT t.number, t.parent FROM turns t JOIN turns p ON p.number = t.parent"
     " WHERE p.state != 2 OR p.number >= t.number",
     OfParent},
};

// A store of version 1 does not have these tables.
constexpr RowCheck kSegmentChecks[] = {
    {"SELECT " LONGSTREAM_SEGMENT_COLUMNS ", NULL FROM segments",
     [](const Statement& row) { return ReadSegmentRow(row).status(); }},
    {"SELECT " LONGSTREAM_SNAPSHOT_COLUMNS " FROM snapshots",
     [](const Statement& row) { return ReadSnapshot(row).status(); }},
    {"SELECT p.turn FROM snapshots p WHERE"
     " NOT EXISTS (SELECT 1 FROM segments s WHERE s.tenant = p.tenant AND s.key = p.fixed)"
     " OR p.span IS NOT NULL AND"
     " NOT EXISTS (SELECT 1 FROM segments s WHERE s.tenant = p.tenant AND s.key = p.span)",
     OfSnapshot},
    {"SELECT n.key FROM segments n WHERE n.previous IS NOT NULL AND"
     " NOT EXISTS (SELECT 1 FROM segments s WHERE s.tenant = n.tenant AND s.key = n.previous)",
     OfSpan},
};

// A store of version 2 does not have these tables.
constexpr RowCheck kSumChecks[] = {
    {"SELECT turn, bytes, wanted FROM"
     " (SELECT s.turn, s.bytes, length(t.request) + length(t.result) + coalesce(p.bytes, 0) AS "
     "wanted"
     "   FROM turn_sums s JOIN turns t ON t.number = s.turn"
     "   LEFT JOIN turn_sums p ON p.turn = t.parent"
     "   WHERE t.state = 2 AND (t.parent IS NULL OR p.turn IS NOT NULL)) AS sums WHERE bytes != "
     "wanted",
     OfTurnSum},
};

// A store of version 3 does not have this table.
constexpr RowCheck kAliasChecks[] = {
    {"SELECT " LONGSTREAM_ALIAS_COLUMNS " FROM aliases",
     [](const Statement& row) { return ReadAlias(row).status(); }},
};

// A store of version 5 does not have this table.
constexpr RowCheck kNoteChecks[] = {
    {"SELECT " LONGSTREAM_NOTE_COLUMNS " FROM notes n JOIN sessions s ON s.number = n.session",
     [](const Statement& row) { return ReadNote(row).status(); }},
};

// Stores of version 4 do not have these tables, nor do those in a directory.
constexpr RowCheck kFleetChecks[] = {
    {"SELECT count(*) FROM fleet HAVING count(*) != 1", OfFleet},
    {"SELECT replica, holder FROM leases"
     " WHERE holder IS NOT NULL AND holder != replica || '/' || incarnation",
     OfLease},
    {"SELECT l.replica, l.incarnation FROM leases l JOIN fleet f"
     " ON l.incarnation > f.last_incarnation",
     OfIncarnation},
};

// Checks of a table that older stores do not have.
struct TableChecks {
  const char* table;
  absl::Span<const RowCheck> checks;
};

absl::Status CheckRows(Database& database, const RowCheck& check, size_t limit,
                       std::vector<std::string>* faults) {
  absl::StatusOr<StatementUse> select = database.Use(check.sql);
  if (!select.ok()) return select.status();
  while (faults->size() < limit) {
    const Stepped code = (*select)->Step();
    if (code == Stepped::kDone) break;
    if (code != Stepped::kRow) return database.Error(check.sql);
    const absl::Status status = check.read(**select);
    if (!status.ok()) faults->emplace_back(status.message());
  }
  return absl::OkStatus();
}

// Stops at the first check that cannot be made.
absl::Status RunChecks(Database& database, absl::Span<const RowCheck> checks, size_t limit,
                       std::vector<std::string>* faults) {
  for (const RowCheck& check : checks) {
    absl::Status status = CheckRows(database, check, limit, faults);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CheckLog(Database& database, size_t limit) {
  std::vector<std::string> faults;
  absl::Status status = database.CheckItself(limit, &faults);
  if (status.ok()) status = RunChecks(database, kChecks, limit, &faults);
  for (const TableChecks& later :
       {TableChecks{"segments", kSegmentChecks}, TableChecks{"turn_sums", kSumChecks},
        TableChecks{"aliases", kAliasChecks}, TableChecks{"notes", kNoteChecks},
        TableChecks{"leases", kFleetChecks}}) {
    if (!status.ok()) break;
    const absl::StatusOr<bool> has_table = database.HasTable(later.table);
    status = has_table.status();
    if (has_table.value_or(false)) status = RunChecks(database, later.checks, limit, &faults);
  }
  if (!status.ok() && faults.size() < limit) faults.emplace_back(status.message());
  return faults;
}

}  // namespace longstream::store
