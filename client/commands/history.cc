// The command `longstream sessions history`.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "client/commands/commands.h"
#include "client/output.h"

namespace longstream::client {
namespace {

// Without the prefix of the enum, in lower case.
const char* NameOf(v1::HistoryKind kind) {
  switch (kind) {
    case v1::HISTORY_KIND_PROMPT:
      return "prompt";
    case v1::HISTORY_KIND_MESSAGE:
      return "message";
    case v1::HISTORY_KIND_ANSWER:
      return "answer";
    default:
      return "unknown";
  }
}

// A message as the APIs of other servers write it. The server has checked its JSON.
nlohmann::json JsonOf(const v1::Message& message) {
  nlohmann::json json =
      message.json().empty() ? nlohmann::json::object() : nlohmann::json::parse(message.json());
  json["role"] = message.role();
  if (message.has_content()) json["content"] = message.content();
  return json;
}

nlohmann::json JsonOf(const v1::HistoryEntry& entry) {
  nlohmann::json json = {{"kind", NameOf(entry.kind())}, {"turn_id", entry.turn_id()}};
  if (entry.has_message()) {
    json["message"] = JsonOf(entry.message());
  } else {
    json["text"] = entry.text();
    json["position"] = entry.position();
  }
  return json;
}

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void History(const Global& global, const std::string& session) {
  Connection connection = ConnectToSession(global, session);
  for (const v1::HistoryEntry& entry : connection.History(session)) {
    if (global.json) {
      Print(Dump(JsonOf(entry)) + "\n");
    } else if (!entry.has_message()) {
      Print("--- " + std::string(NameOf(entry.kind())) + ", turn " + entry.turn_id() + ", up to " +
            std::to_string(entry.position()) + "\n" + entry.text() + "\n");
    } else {
      const v1::Message& message = entry.message();
      Print("--- " + message.role() + ", turn " + entry.turn_id() + "\n");
      if (message.has_content()) Print(message.content() + "\n");
      if (!message.json().empty()) Print(message.json() + "\n");
    }
  }
}

}  // namespace

void AddHistory(CLI::App* sessions, const Global* global) {
  auto session = std::make_shared<std::string>();
  CLI::App* command = sessions->add_subcommand(
      "history", "Print what the turns of a session have read and written; --json: a line each");
  command->add_option("session", *session, "the session")->required();
  command->callback([=] { History(*global, *session); });
}

}  // namespace longstream::client
