// Requests that only need a tokenizer.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_writer.h"
#include "gateway/call.h"
#include "gateway/gateway.h"
#include "gateway/http/problem.h"
#include "gateway/tokens/tokenize_request.h"

namespace longstream::gateway {

std::optional<v1::TokenizeResponse> Gateway::Tokens(Call& call, const v1::TokenizeRequest& request,
                                                    std::shared_ptr<void>* held) {
  // A token may be one byte of the body, and takes a few dozen in messages and in JSON. The server
  // limits its answer.
  constexpr uint64_t kBytes = 12;
  constexpr uint64_t kBytesWithPiece = 64;
  constexpr uint64_t kMost = uint64_t{64} << 20;
  const uint64_t bytes = request.count_only() ? 0 : request.pieces() ? kBytesWithPiece : kBytes;
  *held = response_budget_.Take(std::min(kMost, bytes * call.request().body.size() + 1));
  if (*held == nullptr) {
    call.Answer(BusyAnswer("all answers together take too many bytes; try again"));
    return std::nullopt;
  }
  client::Connection connection = turns_.connection().For(call.caller());
  return connection.Tokenize(request);
}

void Gateway::Tokenize(Call& call) {
  const v1::TokenizeRequest request = ReadTokenizeRequest(ParseJson(call.request().body));
  std::shared_ptr<void> held;
  const std::optional<v1::TokenizeResponse> read = Tokens(call, request, &held);
  if (!read.has_value()) return;
  // An array of JSON values would take a multiple of the bytes.
  HttpAnswer answer;
  answer.body =
      absl::StrCat("{\"count\":", read->count(), ",\"max_model_len\":", read->context_limit(),
                   ",\"model\":", JsonToText(read->model()), ",\"tokens\":[",
                   absl::StrJoin(read->token_ids(), ","), "]");
  if (request.pieces()) {
    const auto add = [](std::string* text, const std::string& piece) {
      absl::StrAppend(text, JsonToText(piece));
    };
    absl::StrAppend(&answer.body, ",\"token_strs\":[", absl::StrJoin(read->pieces(), ",", add),
                    "]");
  }
  answer.body += "}\n";
  call.Answer(std::move(answer));
}

void Gateway::Detokenize(Call& call) {
  const v1::DetokenizeRequest request = ReadDetokenizeRequest(ParseJson(call.request().body));
  client::Connection connection = turns_.connection().For(call.caller());
  const std::string text = connection.Detokenize(request).text();
  // The members that vLLM's and llama.cpp's clients expect.
  call.Answer(Json({{"prompt", text}, {"content", text}}));
}

void Gateway::CountTokens(Call& call) {
  call.WriteErrorsAs(MessagesError);
  MessagesRequest read = ReadMessagesRequest(ParseJson(call.request().body), /*only_counts=*/true);
  v1::TokenizeRequest request;
  request.set_model(read.model);
  *request.mutable_input() = std::move(*read.request.mutable_input());
  request.set_count_only(true);
  std::shared_ptr<void> held;
  const std::optional<v1::TokenizeResponse> counted = Tokens(call, request, &held);
  if (counted.has_value()) call.Answer(Json({{"input_tokens", counted->count()}}));
}

}  // namespace longstream::gateway
