// The command `longstream sessions history`.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "client/commands/commands.h"
#include "client/json/history_json.h"
#include "client/output.h"

namespace longstream::client {
namespace {

void History(const Global& global, const std::string& session) {
  Connection connection = ConnectToSession(global, session);
  for (const v1::HistoryEntry& entry : connection.History(session)) {
    if (global.json) {
      Print(HistoryJson(entry) + "\n");
    } else if (!entry.has_message()) {
      Print("--- " + std::string(KindName(entry.kind())) + ", turn " + entry.turn_id() +
            ", up to " + std::to_string(entry.position()) + "\n" + entry.text() + "\n");
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
