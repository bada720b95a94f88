// Prints the text, the progress bar, the usage and the JSON of a turn.
#include "client/commands/turn_output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <utility>

#include "client/commands/commands.h"
#include "client/commands/twin_output.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

// The mean time between two tokens, over the whole stream.
double InterTokenMilliseconds(const v1::TurnUsage& usage) {
  const double gaps = static_cast<double>(usage.generated_tokens()) - 1;
  return gaps > 0 ? 1e3 * Seconds(usage.decode_time()) / gaps : 0;
}

// REQUIRES: Token is TokenLogProb or TopToken.
template <typename Token>
Json LogProbJson(const Token& token) {
  return {{"token_id", token.token_id()}, {"token", token.token()}, {"log_prob", token.log_prob()}};
}

Json LogProbsJson(const Generation& generation) {
  Json list = Json::array();
  for (const v1::TokenLogProb& token : generation.log_probs) {
    Json entry = LogProbJson(token);
    entry["top"] = Json::array();
    for (const v1::TopToken& top : token.top()) entry["top"].push_back(LogProbJson(top));
    list.push_back(std::move(entry));
  }
  return list;
}

// The bytes as numbers, because they are no UTF-8.
Json BytesJson(const std::string& bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

constexpr int kBarWidth = 30;
// Shorter prompts get no progress bar, because the server reads them before a person could see it.
constexpr uint64_t kBarTokens = 1024;

void PrintProgress(const v1::PrefillProgress& progress) {
  if (isatty(STDERR_FILENO) == 0 || progress.total_tokens() < kBarTokens) return;
  const int done = static_cast<int>(kBarWidth * progress.done_tokens() / progress.total_tokens());
  std::cerr << "\rreading [" << std::string(done, '#') << std::string(kBarWidth - done, ' ') << "] "
            << progress.done_tokens() << "/" << progress.total_tokens();
  if (progress.done_tokens() == progress.total_tokens()) {
    std::cerr << "\r" << std::string(kBarWidth + 40, ' ') << "\r";
  }
}

// Where caches were read from; "": nowhere.
const char* SourceName(v1::RestoreSource source) {
  switch (source) {
    case v1::RESTORE_SOURCE_UNSPECIFIED:
      return "";
    case v1::RESTORE_SOURCE_STORE:
      return "store";
    case v1::RESTORE_SOURCE_PEER:
      return "peer";
    default:
      return "unknown";
  }
}

}  // namespace

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop_token";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_string";
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    case v1::FINISH_REASON_CONTEXT:
      return "context";
    case v1::FINISH_REASON_ABORTED:
      return "aborted";
    case v1::FINISH_REASON_FORMAT:
      return "format";
    default:
      return "unknown";
  }
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Generation StreamTurn(Connection& connection, const v1::GenerateRequest& request, Show show) {
  const auto on_message = [show](const v1::GenerateResponse& response) {
    if (show == Show::kNothing) return true;
    if (response.has_prefill()) PrintProgress(response.prefill());
    const v1::Delta& delta = response.delta();
    if (show == Show::kText || !delta.token_ids().empty()) Print(delta.text());
    return true;
  };
  bool told = false;
  const auto on_lost = [&told](const CallError& error) {
    if (!std::exchange(told, true)) std::cerr << "\n[" << error.what() << "; trying again]\n";
  };
  return connection.Generate(request, on_message, on_lost);
}

void PrintIncomplete(const Generation& generation) {
  if (!generation.finish.incomplete_character().empty()) Print("\uFFFD");
}

void PrintUsage(const Generation& generation, const v1::Session& session) {
  const v1::TurnUsage& usage = generation.finish.usage();
  const std::string alias = session.alias().empty() ? "" : session.alias() + " -> ";
  std::cerr << "[" << ReasonName(generation.finish.reason()) << ", " << usage.prompt_tokens()
            << " + " << usage.generated_tokens() << " tokens on " << alias << session.model()
            << ", first after " << static_cast<int>(1e3 * Seconds(usage.time_to_first_token()))
            << " ms, " << std::fixed << std::setprecision(2) << InterTokenMilliseconds(usage)
            << std::defaultfloat << " ms each; holds kv " << HumanBytes(usage.bytes().kv())
            << ", window " << HumanBytes(usage.bytes().window()) << ", state "
            << HumanBytes(usage.bytes().state()) << ", host " << HumanBytes(usage.bytes().host())
            << (generation.finish.incomplete_character().empty() ? "" : "; ends within a character")
            << "]\n";
}

void PrintLogProbs(const Generation& generation) {
  for (const v1::TokenLogProb& token : generation.log_probs) {
    std::printf("%8d %9.4f  %s", token.token_id(), static_cast<double>(token.log_prob()),
                Dump(token.token(), -1).c_str());
    for (const v1::TopToken& top : token.top()) {
      std::printf("  %s %.4f", Dump(top.token(), -1).c_str(), static_cast<double>(top.log_prob()));
    }
    std::printf("\n");
  }
}

Json BytesJson(const v1::SessionBytes& bytes) {
  return {{"kv", bytes.kv()},
          {"window", bytes.window()},
          {"state", bytes.state()},
          {"host", bytes.host()}};
}

std::string TurnJson(const Generation& generation, const v1::Session& session, bool one_line) {
  const v1::TurnUsage& usage = generation.finish.usage();
  Json json = {{"session", session.session_id()},
               {"model", session.model()},
               {"alias", session.alias()},
               {"text", generation.text},
               {"token_ids", generation.token_ids},
               {"finish_reason", ReasonName(generation.finish.reason())},
               {"position", generation.finish.position()},
               {"kept_text_bytes", generation.finish.kept_text_bytes()},
               {"incomplete_character", BytesJson(generation.finish.incomplete_character())},
               {"seed", generation.started.seed()},
               {"prompt_tokens", usage.prompt_tokens()},
               {"generated_tokens", usage.generated_tokens()},
               {"reused_tokens", usage.reused_tokens()},
               {"restored_tokens", usage.restored_tokens()},
               {"restore_source", SourceName(usage.restore_source())},
               {"recomputed_tokens", usage.recomputed_tokens()},
               {"recompute_reason", usage.recompute_reason()},
               {"queue_seconds", Seconds(usage.queue_time())},
               {"prefill_seconds", Seconds(usage.prefill_time())},
               {"decode_seconds", Seconds(usage.decode_time())},
               {"time_to_first_token_seconds", Seconds(usage.time_to_first_token())},
               {"inter_token_milliseconds", InterTokenMilliseconds(usage)},
               {"bytes", BytesJson(usage.bytes())}};
  if (generation.finish.reason() == v1::FINISH_REASON_STOP_STRING) {
    json["stop_string"] = generation.finish.stop_string();
  }
  if (generation.finish.reason() == v1::FINISH_REASON_STOP_TOKEN) {
    json["stop_token"] = generation.finish.stop_token();
  }
  if (!generation.log_probs.empty()) json["log_probs"] = LogProbsJson(generation);
  if (generation.finish.has_twin()) json["twin"] = TwinJson(generation);
  return Dump(json, one_line ? -1 : 2);
}

std::string FailedTurnJson(const CallError& error, const std::string& session) {
  const Json json = {
      {"session", session},
      {"error", {{"code", error.code_name()}, {"message", error.status().error_message()}}}};
  return Dump(json, -1);
}

}  // namespace longstream::client
