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

// Says why a turn failed, under --json in the line that its answer would have had.
void TellFailure(const CallError& error, const std::string& session, bool json) {
  std::cerr << "\n" << error.what() << "\n";
  if (!json) return;
  Print(FailedTurnJson(error, session) + "\n");
  FlushOutput();
}

// One answer, as it comes or as a line of JSON. Ctrl-C stops it and nothing else; what was read so
// far stays in the session. Returns the exit code that the turn by itself would have.
int Answer(Connection& connection, const v1::GenerateRequest& request, bool json) {
  int exit_code = kOk;
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
    if (!Interrupted()) exit_code = error.exit_code();
    TellFailure(error, request.session_id(), json);
  }
  if (InterruptSignal() != SIGINT) return exit_code;
  ClearInterrupt();
  WaitUntilIdle(connection, request.session_id());
  return exit_code;
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
  int exit_code = kOk;  // of the last turn that failed
  LineReader lines;
  for (;;) {
    std::cerr << "> ";
    const std::optional<std::string> line = lines.Next();
    if (!line || line->empty()) break;
    request.mutable_input()->set_text(*line + "\n");
    const int of_turn = Answer(connection, request, global.json);
    if (of_turn != kOk) exit_code = of_turn;
  }
  if (Interrupted()) std::cerr << "\n";
  if (exit_code != kOk) throw ToldFailure{exit_code};
}

}  // namespace

void AddChat(CLI::App* app, const Global* global) {
  auto options = std::make_shared<TurnOptions>();
  CLI::App* command = app->add_subcommand("chat", "Talk to a model, a line at a time");
  options->AddTo(command);
  command->footer(
      "Ctrl-C stops an answer; at the prompt it ends the chat. A turn that fails is told and\n"
      "the chat goes on; its exit code is then that of the last turn that failed. With --json\n"
      "each turn gives one line, a failed one with its `error`.\n"
      "Example:\n  longstream chat -m hypenet -t 0.7 -n 200");
  command->callback([=] { Chat(*global, *options); });
}

}  // namespace longstream::client
