// Finds the model, then reads the input with its tokenizer on a text thread.
#include "service/server/token_calls.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/server/messages_check.h"
#include "service/server/request_check.h"
#include "service/server/routing/route_messages.h"
#include "service/server/transport/held_answer.h"
#include "service/server/transport/late_answer.h"
#include "service/server/turn_input.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/text_decoder.h"

namespace longstream {
namespace {

using google::protobuf::io::CodedOutputStream;

// The bytes of an answer's other fields: the model's name and numbers.
constexpr uint64_t kOtherAnswerBytes = 1024;

absl::Status TooLarge(const char* field, const absl::string_view& size, const char* advice) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": the answer would have ", size,
                                                 ", and may have ", kMaxTokenAnswerBytes, "; ",
                                                 advice));
}

// Counts the memory of an answer.
absl::Status Take(uint64_t bytes, RequestMemory* memory, HeldAnswer* held) {
  held->answer.emplace(memory, bytes);
  return held->answer->Add(bytes);
}

absl::StatusOr<std::vector<int32_t>> ReadText(const v1::TokenizeRequest& request,
                                              const ServedModel& model) {
  const std::string& text = request.input().text();
  if (absl::Status status = CheckTextBytes(text, model); !status.ok()) return status;
  const EncodeOptions options{.parse_special = request.parse_special()};
  const bool begins = !request.has_add_special() || request.add_special();
  absl::StatusOr<std::vector<int32_t>> tokens =
      begins ? model.tokenizer().EncodeAfter(std::nullopt, text, options)
             : model.tokenizer().Encode(text, options);
  if (tokens.ok()) return tokens;
  return absl::InvalidArgumentError(absl::StrCat("input.text: ", tokens.status().message()));
}

absl::Status CheckIds(const char* field, const google::protobuf::RepeatedField<int32_t>& ids,
                      const ServedModel& model) {
  const uint32_t vocabulary_size = model.backend().info().vocabulary_size;
  for (int i = 0; i < ids.size(); ++i) {
    absl::Status status = CheckTokenId(field, i, ids[i], vocabulary_size);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns the tokens of the input, which are in the request or in `own`.
absl::StatusOr<std::span<const int32_t>> ReadInput(Decoded<v1::TokenizeRequest>* decoded,
                                                   const ServedModel& model,
                                                   std::vector<int32_t>* own) {
  v1::TokenizeRequest& request = *decoded->message;
  switch (request.input().kind_case()) {
    case v1::Input::kText: {
      absl::StatusOr<std::vector<int32_t>> tokens = ReadText(request, model);
      if (!tokens.ok()) return tokens.status();
      *own = *std::move(tokens);
      return *own;
    }
    case v1::Input::kTokens: {
      const auto& ids = request.input().tokens().ids();
      if (absl::Status status = CheckIds("input.tokens.ids", ids, model); !status.ok()) {
        return status;
      }
      return std::span(ids.data(), static_cast<size_t>(ids.size()));
    }
    case v1::Input::kMessages: {
      absl::StatusOr<chat::Addition> addition =
          AddMessages(request.mutable_input()->mutable_messages(), request.parse_special(),
                      /*generates=*/true, model, chat::SessionText{}, &decoded->charge);
      if (!addition.ok()) return addition.status();
      *own = std::move(addition->tokens);
      return *own;
    }
    case v1::Input::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("input: expected text, tokens or messages");
}

// INVALID_ARGUMENT: the answer would be too large. Also returns the errors of RequestCharge::Add.
absl::Status CheckAnswer(std::span<const int32_t> tokens, bool pieces, const ServedModel& model,
                         RequestMemory* memory, HeldAnswer* held) {
  uint64_t sent = kOtherAnswerBytes;
  uint64_t held_bytes = sent + tokens.size() * sizeof(int32_t);
  for (const int32_t token : tokens) {
    sent += CodedOutputStream::VarintSize32(static_cast<uint32_t>(token));
    if (!pieces) continue;
    const size_t size = model.tokenizer().TokenBytes(token).size();
    sent += 1 + CodedOutputStream::VarintSize32(static_cast<uint32_t>(size)) + size;
    held_bytes += sizeof(void*) + sizeof(std::string) + size;
  }
  if (sent <= kMaxTokenAnswerBytes) return Take(held_bytes, memory, held);
  return TooLarge("input", absl::StrCat(sent, " bytes for ", tokens.size(), " tokens"),
                  "ask for count_only, or divide the input");
}

absl::StatusOr<v1::TokenizeResponse> Tokenize(Decoded<v1::TokenizeRequest>* decoded,
                                              const ServedModel& model, RequestMemory* memory,
                                              HeldAnswer* held) {
  std::vector<int32_t> own;
  const absl::StatusOr<std::span<const int32_t>> tokens = ReadInput(decoded, model, &own);
  if (!tokens.ok()) return tokens.status();
  v1::TokenizeRequest& request = *decoded->message;
  v1::TokenizeResponse response;
  response.set_count(tokens->size());
  response.set_context_limit(model.backend().info().context_limit);
  response.set_model(RepairUtf8(model.name()));
  if (request.count_only()) return response;
  absl::Status room = CheckAnswer(*tokens, request.pieces(), model, memory, held);
  if (!room.ok()) return room;
  if (request.pieces()) {
    response.mutable_pieces()->Reserve(static_cast<int>(tokens->size()));
    for (const int32_t token : *tokens) {
      response.add_pieces(std::string(model.tokenizer().TokenBytes(token)));
    }
  }
  if (request.input().has_tokens()) {
    // A copy would take as much memory as the request.
    response.mutable_token_ids()->Swap(request.mutable_input()->mutable_tokens()->mutable_ids());
  } else {
    response.mutable_token_ids()->Add(tokens->begin(), tokens->end());
  }
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(Decoded<v1::DetokenizeRequest>* decoded,
                                                  const ServedModel& model, RequestMemory* memory,
                                                  HeldAnswer* held) {
  const v1::DetokenizeRequest& request = *decoded->message;
  absl::Status status = CheckIds("token_ids", request.token_ids(), model);
  if (!status.ok()) return status;
  TextDecoder decoder(model.tokenizer(), {.skip_special = request.skip_special()});
  std::string text;
  for (const int32_t id : request.token_ids()) {
    decoder.Push(id, &text);
    if (text.size() + kOtherAnswerBytes <= kMaxTokenAnswerBytes) continue;
    return TooLarge("token_ids", absl::StrCat("more than ", kMaxTokenAnswerBytes, " bytes"),
                    "divide the list");
  }
  decoder.Finish(&text);
  status = Take(text.capacity(), memory, held);
  if (!status.ok()) return status;
  v1::DetokenizeResponse response;
  response.set_text(std::move(text));
  response.set_model(RepairUtf8(model.name()));
  return response;
}

// `work_bytes`: as for TextThreads::Run.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* NewCall(const TokenCallTools& tools, const std::string& tenant,
                                  const RouteAsk& ask, Decoded<Request> request, size_t work_bytes,
                                  Response* response,
                                  absl::StatusOr<Response> (*work)(Decoded<Request>*,
                                                                   const ServedModel&,
                                                                   RequestMemory*, HeldAnswer*)) {
  const auto held = std::make_shared<HeldAnswer>(tools.calls);
  const auto call = LateAnswer<Response>::Make(held, response);
  absl::StatusOr<FoundEngine> found =
      tools.sessions->FindForText(tenant, request.message->model(), ask);
  if (!found.ok()) {
    call->Answer(found.status());
    return call.get();
  }
  const uint64_t held_bytes = request.charge.bytes();
  // Shared, because std::function can only hold what can be copied.
  const auto decoded = std::make_shared<Decoded<Request>>(std::move(request));
  const auto run = [call, held, decoded, work, engine = *std::move(found), memory = tools.memory] {
    if (call->answered()) return;
    absl::StatusOr<Response> answer =
        work(decoded.get(), engine.engine->model(), memory, held.get());
    decoded->message.reset();  // freed before the client gets the answer
    call->Answer(std::move(answer));
  };
  const absl::Status status = tools.threads->Run(work_bytes, held_bytes, run);
  if (!status.ok()) call->Answer(status);
  return call.get();
}

}  // namespace

grpc::ServerUnaryReactor* NewTokenizeCall(const TokenCallTools& tools, const std::string& tenant,
                                          Decoded<v1::TokenizeRequest> request,
                                          v1::TokenizeResponse* response) {
  const v1::Input& input = request.message->input();
  const auto id_bytes = static_cast<size_t>(input.tokens().ids_size()) * sizeof(int32_t);
  const size_t work_bytes = std::max(TextBytes(input), id_bytes);
  const RouteAsk ask = AskFor(input, /*max_tokens=*/1);
  return NewCall(tools, tenant, ask, std::move(request), work_bytes, response, Tokenize);
}

grpc::ServerUnaryReactor* NewDetokenizeCall(const TokenCallTools& tools, const std::string& tenant,
                                            Decoded<v1::DetokenizeRequest> request,
                                            v1::DetokenizeResponse* response) {
  const auto ids = static_cast<size_t>(request.message->token_ids_size());
  return NewCall(tools, tenant, {}, std::move(request), ids * sizeof(int32_t), response,
                 Detokenize);
}

}  // namespace longstream
