// longstream: the command-line client.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <iostream>

#include "client/commands/commands.h"
#include "client/interrupt.h"
#include "client/output.h"

namespace {

namespace client = longstream::client;
using client::CallError;

int Run(int argc, char** argv) {
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
  app.add_option("--wait", global.wait_seconds, "seconds to wait for the server to come up")
      ->check(client::Number(0.0, 1e6));
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit codes: 0 done, 1 the server refused or failed, 2 wrong usage, 3 no server, 4 output\n"
      "not written, 130 interrupted (128 + signal). Ctrl-C cancels the running calls and closes "
      "the\n"
      "session that the command opened; a second Ctrl-C meanwhile ends the program at once.\n"
      "Examples:\n"
      "  longstream models\n"
      "  longstream generate -m hypenet -n 100 'def main():'\n"
      "  longstream bench -m dense --streams 16");
  client::AddGenerate(&app, &global);
  client::AddChat(&app, &global);
  client::AddModels(&app, &global);
  client::AddSessions(&app, &global);
  client::AddScore(&app, &global);
  client::AddCompare(&app, &global);
  client::AddEval(&app, &global);
  client::AddBench(&app, &global);
  client::AddAdmin(&app, &global);
  client::AddStore(&app, &global);
  client::AddToken(&app, &global);
  try {
    app.parse(argc, argv);
    client::FlushOutput();
  } catch (const CLI::ParseError& error) {
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
    std::cerr << "longstream: " << error.what() << "\n";
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
