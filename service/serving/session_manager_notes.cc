// Notes that clients keep with sessions in the store.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// Of a session. The proto states them, too.
constexpr size_t kMostNotes = 4096;
constexpr uint64_t kMostNoteBytes = uint64_t{64} << 20;
// Values that one call finds.
constexpr uint64_t kMostFoundBytes = uint64_t{2} << 20;

}  // namespace

void SessionManager::PutNotes(const SessionKey& key, std::vector<store::NoteRow> notes,
                              std::function<void(const absl::Status&)> put) {
  if (options_.store == nullptr) {
    return put(absl::FailedPreconditionError("notes: the server has no store"));
  }
  const absl::StatusOr<ServedSession> served = FindServed(key);
  if (served.ok() && !served->session->View().durable) {
    return put(absl::FailedPreconditionError(absl::StrCat(
        "session_id: session ", key.id.ToString(), " is not in the store, so it has no notes")));
  }
  using Done = std::function<void(absl::Status)>;
  Done answer = AnswerInTime<Done>(&timers_, CommitTimeout(), std::move(put));
  options_.commits->Submit(
      store::PutNotes{key, std::move(notes), absl::Now(), kMostNotes, kMostNoteBytes},
      [this, key, pending = Pending(),
       answer = std::move(answer)](const absl::StatusOr<store::Applied>& applied) {
        answer(absl::IsNotFound(applied.status()) ? ended_.Explain(key) : applied.status());
      });
}

absl::StatusOr<store::SessionStore::FoundNotes> SessionManager::FindNotes(
    const std::string& tenant, const std::vector<std::string>& keys) const {
  if (options_.store == nullptr) {
    return absl::FailedPreconditionError("keys: the server has no store, so it has no notes");
  }
  return options_.store->Notes(tenant, keys, kMostFoundBytes);
}

}  // namespace longstream
