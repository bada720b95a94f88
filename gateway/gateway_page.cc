// Routes of Longstream's own: models and sessions as the gRPC service describes them.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "client/json/history_json.h"
#include "client/json/message_json.h"
#include "gateway/call.h"
#include "gateway/gateway.h"

namespace longstream::gateway {
namespace {

void AnswerMessage(Call& call, const google::protobuf::Message& message) {
  HttpAnswer answer;
  answer.body = client::MessageJson(message, /*lines=*/false) + "\n";
  call.Answer(std::move(answer));
}

// The caller of a request. A page asks again soon, so it need not wait long for a store that hangs.
client::Caller BriefCaller(const Call& call) {
  client::Caller caller = call.caller();
  caller.timeout = std::chrono::seconds(5);
  return caller;
}

}  // namespace

void Gateway::ListLoadedModels(Call& call) {
  client::Connection connection = turns_.connection().For(BriefCaller(call));
  AnswerMessage(call, connection.ModelsAndAliases());
}

void Gateway::ListSessions(Call& call) {
  v1::ListSessionsRequest request;
  request.set_model(Decoded(call.request().Query("model")));
  request.set_page_token(Decoded(call.request().Query("page_token")));
  const std::string_view size = call.request().Query("page_size");
  int32_t page_size = 0;
  if (!size.empty() && !absl::SimpleAtoi(absl::string_view(size.data(), size.size()), &page_size)) {
    throw BadRequest("page_size",
                     "expected a whole number, found " + Shown(Json(std::string(size))));
  }
  request.set_page_size(page_size);
  client::Connection connection = turns_.connection().For(BriefCaller(call));
  AnswerMessage(call, connection.SessionsPage(request));
}

void Gateway::HandleSession(Call& call, const std::string& rest) {
  constexpr std::string_view kHistory = "/history";
  const bool is_history = rest.ends_with(kHistory);
  const std::string id = Decoded(is_history ? rest.substr(0, rest.size() - kHistory.size()) : rest);
  const bool closes = !is_history && call.request().method == "DELETE";
  const bool reads = !closes && call.Expect("GET");
  call.route = "/longstream/sessions/{session}";  // also of calls that throw
  if (is_history) call.route += kHistory;
  if (closes) CloseSession(call, id);
  if (!reads) return;
  is_history ? ReadHistory(call, id) : DescribeSession(call, id);
}

void Gateway::ReadHistory(Call& call, const std::string& id) {
  client::Connection connection = turns_.connection().For(BriefCaller(call));
  HttpAnswer answer;
  answer.body = "{\"history\":[";
  for (const v1::HistoryEntry& entry : connection.History(id)) {
    if (answer.body.back() == '}') answer.body += ',';
    answer.body += client::HistoryJson(entry);
  }
  answer.body += "]}\n";
  call.Answer(std::move(answer));
}

void Gateway::DescribeSession(Call& call, const std::string& id) {
  client::Connection connection = turns_.connection().For(BriefCaller(call));
  AnswerMessage(call, connection.Get(id));
}

void Gateway::CloseSession(Call& call, const std::string& id) {
  client::Connection connection = turns_.connection().For(call.caller());
  const v1::CloseSessionResponse response = connection.Close(id);
  turns_.Forget(id);
  AnswerMessage(call, response);
}

}  // namespace longstream::gateway
