// A store of sessions that only makes changes: what CommitQueue needs.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_STUB_SESSION_STORE_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_STUB_SESSION_STORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sessions/store/session_store.h"

namespace longstream::store {

class StubSessionStore : public SessionStore {
 public:
  absl::StatusOr<SessionRow> Session(const SessionKey& /*key*/) override { return None(); }
  absl::StatusOr<std::vector<SessionRow>> Sessions(const std::string& /*tenant*/,
                                                   const std::optional<SessionId>& /*after*/,
                                                   size_t /*limit*/,
                                                   const std::string& /*model*/) override {
    return None();
  }
  absl::StatusOr<std::map<std::string, uint64_t>> CountSessions() override { return None(); }
  absl::StatusOr<std::vector<OwnedSessions>> CountOwnedSessions() override { return None(); }
  absl::StatusOr<FoundNotes> Notes(const std::string& /*tenant*/,
                                   const std::vector<std::string>& /*keys*/,
                                   uint64_t /*most_bytes*/) override {
    return None();
  }
  absl::StatusOr<std::vector<AliasRow>> Aliases() override { return None(); }
  absl::StatusOr<std::vector<SessionRow>> Expired(absl::Time /*now*/, size_t /*limit*/) override {
    return None();
  }
  absl::StatusOr<TurnRow> Turn(const SessionKey& /*session*/, const TurnId& /*id*/) override {
    return None();
  }
  absl::StatusOr<TurnRow> Turn(TurnNumber /*number*/) override { return None(); }
  absl::StatusOr<std::vector<TurnNumber>> TurnNumbers(const SessionKey& /*session*/,
                                                      TurnNumber /*after*/,
                                                      size_t /*limit*/) override {
    return None();
  }
  absl::Status VisitPath(TurnNumber /*number*/,
                         const std::function<bool(const TurnRow&)>& /*visit*/) override {
    return None();
  }
  absl::Status VisitLinks(TurnNumber /*number*/,
                          const std::function<bool(const TurnRow&)>& /*visit*/) override {
    return None();
  }
  absl::StatusOr<size_t> Collect(absl::Time /*before*/) override { return None(); }
  absl::StatusOr<std::unique_ptr<SegmentWriter>> WriteSegments() override { return None(); }
  absl::StatusOr<std::vector<SnapshotRow>> Snapshots(TurnNumber /*number*/,
                                                     size_t /*max_turns*/) override {
    return None();
  }
  absl::StatusOr<std::vector<SegmentRow>> Segments(const std::string& /*tenant*/,
                                                   const SnapshotRow& /*snapshot*/) override {
    return None();
  }
  absl::StatusOr<uint64_t> HeadBytes(const std::string& /*tenant*/, TurnNumber /*head*/) override {
    return None();
  }
  absl::StatusOr<SegmentRow> FindSegment(const std::string& /*tenant*/,
                                         const SegmentKey& /*key*/) override {
    return None();
  }
  absl::StatusOr<std::unique_ptr<SegmentReader>> ReadSegment(const std::string& /*tenant*/,
                                                             const SegmentKey& /*key*/) override {
    return None();
  }
  absl::StatusOr<uint64_t> CollectSegments(const SegmentCollection& /*collection*/) override {
    return None();
  }
  absl::StatusOr<std::vector<std::string>> Check(size_t /*limit*/) override { return None(); }

 private:
  static absl::Status None() { return absl::UnimplementedError("not a part of this store"); }
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_STUB_SESSION_STORE_H_
