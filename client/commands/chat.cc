// `longstream chat`: a dialogue on one session, a turn for each line of the user.
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/commands/turn_options.h"
#include "client/commands/turn_output.h"
#include "client/commands/twin_output.h"
#include "client/interrupt.h"
#include "client/output.h"

namespace longstream::client {
namespace {

// Waits until a cancelled turn has ended on the server, because the session accepts no other turn
// before that. Gives up after two seconds or another interrupt. Then the next turn fails and prints
// the reason.
void WaitUntilIdle(Connection& connection, const std::string& session) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && connection.Get(session).turn_running(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Prints why a turn failed. With --json, also prints the JSON line of the turn.
void TellFailure(const CallError& error, const std::string& session, bool json) {
  std::cerr << "\n" << error.what() << "\n";
  if (!json) return;
  Print(FailedTurnJson(error, session) + "\n");
  FlushOutput();
}

// Runs a turn and prints its answer while it arrives, or as a line of JSON. Ctrl-C stops only this
// answer; the session keeps the tokens that have arrived. Returns the exit code of the turn.
// *cut: whether the answer before ended within a character, for which U+FFFD was printed. An answer
// that succeeds sets it for itself.
int Answer(Connection& connection, const v1::Session& session, const v1::GenerateRequest& request,
           bool json, bool* cut) {
  int exit_code = kOk;
  try {
    const Show text = *cut ? Show::kTextOfTokens : Show::kText;
    const Generation generation = StreamTurn(connection, request, json ? Show::kNothing : text);
    if (json) {
      Print(TurnJson(generation, session, /*one_line=*/true) + "\n");
      FlushOutput();
    } else {
      PrintIncomplete(generation);
      *cut = !generation.finish.incomplete_character().empty();
      Print("\n");
      PrintUsage(generation, session);
      PrintTwinSummary(generation);
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

// Why the model cannot take messages. REQUIRES: it cannot.
std::string ReasonForText(const v1::Model& model) {
  return model.chat_error().empty() ? "the model has no chat template" : model.chat_error();
}

struct ChatOptions {
  TurnOptions turn;
  bool raw = false;
  std::string system;
  std::string tools_file;
  std::string template_arguments;
};

// Converts the user's lines to inputs: to messages if the model has a chat template, otherwise to
// text.
class Inputs {
 public:
  // Throws CLI::ValidationError if an option needs messages and the input is text.
  Inputs(const ChatOptions& options, const v1::Model& model, bool is_new)
      : options_(options), uses_messages_(!options.raw && model.chat()) {
    const bool needs_messages = !options.system.empty() || !options.tools_file.empty() ||
                                !options.template_arguments.empty();
    if (needs_messages && !uses_messages_) {
      const std::string why = options.raw ? "cannot be used with --raw" : ReasonForText(model);
      throw CLI::ValidationError("--system, --tools, --template-args", why);
    }
    if (!options.system.empty() && !is_new) {
      throw CLI::ValidationError("--system", "the session already has tokens");
    }
    if (!options.tools_file.empty()) tools_ = ReadFile(options.tools_file, "--tools");
  }

  bool uses_messages() const { return uses_messages_; }

  // Sets `input` to the user's line. is_first: the session is empty.
  void Set(const std::string& line, bool is_first, v1::Input* input) const {
    if (!uses_messages_) return input->set_text(line + "\n");
    v1::Messages* messages = input->mutable_messages();
    messages->Clear();
    if (is_first && !options_.system.empty()) Add("system", options_.system, messages);
    Add("user", line, messages);
    messages->set_tools(tools_);
    messages->set_template_arguments(options_.template_arguments);
  }

 private:
  static void Add(const std::string& role, const std::string& content, v1::Messages* messages) {
    v1::Message* message = messages->add_messages();
    message->set_role(role);
    message->set_content(content);
  }

  const ChatOptions& options_;
  const bool uses_messages_;
  std::string tools_;
};

void Chat(const Global& global, const ChatOptions& options) {
  Connection connection = options.turn.Connect(global);
  v1::GenerateRequest request;
  const Session session = options.turn.Open(connection, v1::Input());
  const v1::Session& opened = session.opened();
  request.set_session_id(session.id());
  request.set_on_abort(v1::ON_ABORT_KEEP);
  options.turn.Fill(&request);
  const v1::Model model = connection.Model(opened.model());
  const Inputs inputs(options, model, opened.position() == 0);
  if (!inputs.uses_messages() && !options.raw) {
    std::cerr << ReasonForText(model) << "; the model continues the text of your lines\n";
  }
  std::cerr << "session " << request.session_id()
            << "; an empty line or Ctrl-D ends, Ctrl-C stops an answer\n";
  int exit_code = kOk;  // the exit code of the last failed turn
  bool cut = false;
  LineReader lines;
  for (;;) {
    std::cerr << "> ";
    const std::optional<std::string> line = lines.Next();
    if (!line || line->empty()) break;
    const bool is_first =
        inputs.uses_messages() && connection.Get(request.session_id()).position() == 0;
    inputs.Set(*line, is_first, request.mutable_input());
    const int of_turn = Answer(connection, opened, request, global.json, &cut);
    if (of_turn != kOk) exit_code = of_turn;
  }
  if (Interrupted()) std::cerr << "\n";
  if (exit_code != kOk) throw ToldFailure{exit_code};
}

}  // namespace

void AddChat(CLI::App* app, const Global* global) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app->add_subcommand("chat", "Talk to a model, a line at a time");
  options->turn.AddTo(command);
  command->add_flag("--raw", options->raw,
                    "send lines as plain text, even if the model has a chat template");
  command->add_option("--system", options->system, "system message at the beginning of the chat");
  command->add_option("--tools", options->tools_file,
                      "file with a JSON array of the functions that the model may call");
  command->add_option("--template-args", options->template_arguments,
                      "JSON object with further variables of the chat template");
  command->footer(
      "Ctrl-C stops an answer; at the prompt it ends the chat. After a turn that fails the chat\n"
      "goes on; its exit code is that of the last failed turn. With --json each turn prints one\n"
      "line; that of a failed turn has an `error`.\n"
      "If the model has a chat template, each line is a message of the user. If it has none, each\n"
      "line, with its newline, continues the text.\n"
      "Example:\n  longstream chat -m hypenet -t 0.7 -n 200\n"
      "  longstream chat --system 'Be brief.' --template-args '{\"enable_thinking\": false}'");
  command->callback([=] { Chat(*global, *options); });
}

}  // namespace longstream::client
