// Checks the request. A thread that reads the store makes the page.
#include "service/server/history/history_calls.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "service/server/history/history_entries.h"
#include "service/server/transport/held_answer.h"
#include "service/server/transport/late_answer.h"

namespace longstream {
namespace {

constexpr size_t kMostPageBytes = size_t{1} << 20;

absl::StatusOr<v1::ReadHistoryResponse> ReadPage(const SessionManager& sessions,
                                                 const SessionKey& key, const HistoryPlace& place) {
  const absl::StatusOr<SessionHistory> history = sessions.ReadHistory(key);
  if (!history.ok()) return history.status();
  const absl::StatusOr<std::vector<v1::HistoryEntry>> entries =
      EntriesOf(history->turns, *history->model);
  if (!entries.ok()) return entries.status();
  absl::StatusOr<v1::ReadHistoryResponse> page = PageOf(*entries, place, kMostPageBytes);
  if (page.ok()) page->set_version(history->version);
  return page;
}

}  // namespace

grpc::ServerUnaryReactor* NewReadHistoryCall(const HistoryCallTools& tools,
                                             const std::string& tenant,
                                             const v1::ReadHistoryRequest& request,
                                             v1::ReadHistoryResponse* response) {
  const auto held = std::make_shared<HeldAnswer>(tools.calls);
  const auto call = LateAnswer<v1::ReadHistoryResponse>::Make(held, response);
  const auto end = [&call](const absl::Status& status) {
    call->Answer(status);
    return call.get();
  };
  const absl::StatusOr<SessionId> session = SessionId::Parse(request.session_id(), "session_id");
  if (!session.ok()) return end(session.status());
  const absl::StatusOr<HistoryPlace> place = HistoryPlace::Parse(request.page_token());
  if (!place.ok()) return end(place.status());
  tools.sessions->Read<v1::ReadHistoryResponse>(
      {tenant, *session},
      [sessions = tools.sessions, key = SessionKey{tenant, *session}, place = *place] {
        return ReadPage(*sessions, key, place);
      },
      [call, held, memory = tools.memory](absl::StatusOr<v1::ReadHistoryResponse> page) {
        if (call->answered()) return;
        if (!page.ok()) return call->Answer(page.status());
        held->answer.emplace(memory, page->ByteSizeLong());
        absl::Status status = held->answer->Add(page->ByteSizeLong());
        if (!status.ok()) return call->Answer(status);
        call->Answer(std::move(page));
      });
  return call.get();
}

}  // namespace longstream
