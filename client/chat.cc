// `longstream chat`: turn after turn on one session.
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/commands.h"
#include "client/input.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "client/turn_options.h"
#include "client/turn_output.h"

namespace longstream::client {
namespace {

// A cancelled turn ends on the server after it has on the client; until then the session takes no
// other. Gives up when the program is interrupted again, or in the end: the next turn will tell.
void WaitUntilIdle(Connection& connection, const std::string& session) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && connection.Get(session).turn_running(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// One answer, as it comes or as a line of JSON. Ctrl-C stops it and nothing else; what was read so
// far stays in the session.
void Answer(Connection& connection, const v1::GenerateRequest& request, bool json) {
  try {
    const Generation generation = StreamTurn(connection, request, json);
    if (json) {
      Print(TurnJson(generation, request.session_id(), /*one_line=*/true) + "\n");
      FlushOutput();
    } else {
      Print("\n");
      PrintUsage(generation);
    }
  } catch (const CallError& error) {
    if (Interrupted() && InterruptSignal() != SIGINT) throw;
    std::cerr << "\n" << error.what() << "\n";
  }
  if (InterruptSignal() != SIGINT) return;
  ClearInterrupt();
  WaitUntilIdle(connection, request.session_id());
}

void Chat(const Global& global, const TurnOptions& options) {
  Connection connection = Connect(global, options.model());
  std::unique_ptr<OwnedSession> owned;
  v1::GenerateRequest request;
  request.set_session_id(options.Session(connection, &owned));
  request.set_on_abort(v1::ON_ABORT_KEEP);
  options.Fill(&request);
  std::cerr << "session " << request.session_id()
            << "; an empty line or Ctrl-D ends, Ctrl-C stops an answer\n";
  LineReader lines;
  for (;;) {
    std::cerr << "> ";
    const std::optional<std::string> line = lines.Next();
    if (!line || line->empty()) break;
    request.mutable_input()->set_text(*line + "\n");
    Answer(connection, request, global.json);
  }
  if (Interrupted()) std::cerr << "\n";
}

}  // namespace

void AddChat(CLI::App* app, const Global* global) {
  auto options = std::make_shared<TurnOptions>();
  CLI::App* command = app->add_subcommand("chat", "Talk to a model, a line at a time");
  options->AddTo(command);
  command->footer(
      "Ctrl-C stops an answer; at the prompt it ends the chat.\n"
      "Example:\n  longstream chat -m hypenet -t 0.7 -n 200");
  command->callback([=] { Chat(*global, *options); });
}

}  // namespace longstream::client
