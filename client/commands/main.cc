// longstream: the command-line client.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "client/commands/commands.h"
#include "client/interrupt.h"
#include "client/output.h"

namespace {

namespace client = longstream::client;
using client::CallError;

// If a word stands where a subcommand should be, or nothing does: the error that says so. Otherwise
// "".
std::string WrongSubcommand(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  std::string names;
  for (const CLI::App* known : command->get_subcommands([](const CLI::App*) { return true; })) {
    if (known->get_name().empty()) continue;  // a group of options
    names += (names.empty() ? "" : ", ") + known->get_name();
  }
  if (names.empty()) return "";
  const std::string of = command == &app ? "" : " of " + command->get_name();
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (word.starts_with('-')) return "";  // the word behind it may be the option's
    std::string wrong = "no subcommand '";
    wrong.append(word).append("'").append(of).append("; there are: ").append(names);
    return wrong;
  }
  if (error.get_name() != "RequiredError" || command->get_require_subcommand_min() == 0) return "";
  return "a subcommand" + of + " is missing; there are: " + names;
}

// Names a likely cause if the server ends each connection. Empty: none is known.
std::string HintOf(const CallError& error, const client::Global& global) {
  if (const std::string address = error.session_address(); !address.empty()) {
    return "; use --server " + address;
  }
  const std::string& message = error.status().error_message();
  if (error.status().error_code() == grpc::StatusCode::UNIMPLEMENTED && message.empty()) {
    return "this listener does not serve the call; give --server the address in the server's "
           "`listen`";
  }
  if (error.status().error_code() != grpc::StatusCode::UNAVAILABLE) return "";
  const bool is_cut = message.find("reset by peer") != std::string::npos ||
                      message.find("Socket closed") != std::string::npos;
  if (is_cut && !client::UsesTls(client::SecurityOf(global))) {
    return "; does the server use TLS? see --ca and --tls";
  }
  if (message.find("handshake") != std::string::npos) {
    return "; does the server use TLS, with a certificate of the authorities in --ca, for this "
           "name?";
  }
  return "";
}

int Run(int argc, char** argv) {
  // The command says itself what went wrong. Construct nothing of gRPC before this.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // Construct this before gRPC starts threads. SIGPIPE is ignored, so that a write to a closed pipe
  // fails and does not end the program.
  const client::InterruptListener interrupts;
  signal(SIGPIPE, SIG_IGN);
  CLI::App app("Client of a Longstream server: sessions that remember, and streams of tokens.");
  client::Global global;
  app.add_option("--server", global.server, "host:port")
      ->envname("LONGSTREAM_SERVER")
      ->check(client::ServerAddress())
      ->capture_default_str();
  client::AddSecurityOptions(&app, &global.security);
  app.add_flag("--json", global.json, "machine-readable output");
  app.add_option("--wait", global.wait_seconds,
                 "seconds to wait until the server listens and has loaded the model; `models`: all "
                 "models")
      ->check(client::Number(0.0, 1e6));
  app.add_option(
         "--retry", global.retry_seconds,
         "seconds after the last token in which a turn whose server is lost or not available "
         "is sent again; 0: never")
      ->check(client::Number(0.0, 1e6))
      ->capture_default_str();
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", "longstream " LONGSTREAM_VERSION);
  client::AddGenerate(&app, &global);
  client::AddChat(&app, &global);
  client::AddModels(&app, &global);
  client::AddSessions(&app, &global);
  client::AddScore(&app, &global);
  client::AddTokenize(&app, &global);
  client::AddCompare(&app, &global);
  client::AddEval(&app, &global);
  client::AddBench(&app, &global);
  client::AddAdmin(&app, &global);
  client::AddPlan(&app, &global);
  client::AddStore(&app, &global);
  client::AddToken(&app, &global);
  // Last, because a subcommand begins with the footer of its parent.
  app.footer(
      "Exit codes: 0 done, 1 the server refused or failed, 2 wrong usage, 3 no server, 4 output\n"
      "not written, 130 interrupted (128 + signal). Ctrl-C cancels the running calls and closes "
      "the\n"
      "session that the command opened; a second Ctrl-C meanwhile ends the program at once.\n"
      "Examples:\n"
      "  longstream models\n"
      "  longstream generate -m hypenet -n 100 'def main():'\n"
      "  longstream bench -m dense --streams 16");
  try {
    app.parse(argc, argv);
    client::FlushOutput();
  } catch (const CLI::ParseError& error) {
    if (const std::string wrong = WrongSubcommand(app, error); !wrong.empty()) {
      std::cerr << wrong << "\nRun with --help for more information.\n";
      return client::kUsage;
    }
    return app.exit(error) == 0 ? client::kOk : client::kUsage;
  } catch (const client::Interruption&) {
    return 128 + client::InterruptSignal();
  } catch (const client::OutputError& error) {
    if (!error.broken_pipe()) std::cerr << "longstream: " << error.what() << "\n";
    return client::kOutputFailed;
  } catch (const client::ToldFailure& failure) {
    return client::Interrupted() ? 128 + client::InterruptSignal() : failure.exit_code;
  } catch (const CallError& error) {
    if (client::Interrupted()) return 128 + client::InterruptSignal();
    std::cerr << "longstream: " << error.what() << HintOf(error, global) << "\n";
    return error.exit_code();
  }
  return client::Interrupted() ? 128 + client::InterruptSignal() : client::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {  // for example, the system gives no further thread
    std::cerr << "longstream: " << error.what() << "\n";
    return client::kCallFailed;
  }
}
