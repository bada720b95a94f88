// Routes of Longstream's own: models and sessions as the gRPC service describes them.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
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
