// longstream: the command-line client.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "client/commands.h"

namespace {

// The first Ctrl-C stops what runs, the second ends the program.
void OnInterrupt(int /*signal*/) {
  longstream::client::interrupted = true;
  signal(SIGINT, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  namespace client = longstream::client;
  using client::CallError;
  CLI::App app("Client of a Longstream server: sessions that remember, streams of tokens.");
  client::Global global;
  app.add_option("--server", global.server, "host:port")
      ->envname("LONGSTREAM_SERVER")
      ->capture_default_str();
  app.add_flag("--json", global.json, "machine-readable output");
  app.add_option("--wait", global.wait_seconds, "seconds to wait for the server to come up");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit codes: 0 done, 1 the server refused or failed, 2 wrong usage, 3 no server,\n"
      "130 interrupted.\n"
      "Examples:\n"
      "  longstream models\n"
      "  longstream generate -m hypenet -n 100 'def main():'\n"
      "  longstream bench -m dense --streams 16");
  client::AddGenerate(&app, &global);
  client::AddChat(&app, &global);
  client::AddModels(&app, &global);
  client::AddSessions(&app, &global);
  client::AddScore(&app, &global);
  client::AddBench(&app, &global);
  signal(SIGINT, OnInterrupt);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? client::kOk : client::kUsage;
  } catch (const CallError& error) {
    if (client::interrupted) return client::kInterrupted;
    std::cerr << "longstream: " << error.what() << "\n";
    return error.exit_code();
  }
  return client::kOk;
}
